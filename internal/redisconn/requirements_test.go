package redisconn

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pushq/internal/testenv"
)

func TestJudge(t *testing.T) {
	t.Parallel()
	good := map[string]string{"redis_version": "7.0.15", "maxmemory": "1048576", "maxmemory_policy": "noeviction", "aof_enabled": "1"}
	for name, test := range map[string]struct {
		field, value string
		warning      string // part of the only one
		refusal      string // part of it
	}{
		"good":              {"other", "", "", ""},
		"oldest":            {"redis_version", "6.2.0", "", ""},
		"6 without a patch": {"redis_version", "6.2", "", ""},
		"8":                 {"redis_version", "8.0.1", "", ""},
		"10":                {"redis_version", "10.0.0", "", ""},
		"unstable":          {"redis_version", "255.255.255", "", ""},
		"major only":        {"redis_version", "7", "", ""},
		"6.0":               {"redis_version", "6.0.16", "", "redis_version is 6.0.16, pushq needs 6.2"},
		"5.9":               {"redis_version", "5.9.0", "", "redis_version is 5.9.0"},
		"major only, old":   {"redis_version", "6", "", "redis_version is 6,"},
		"no number":         {"redis_version", "new", "", "redis_version is new"},
		"no version":        {"redis_version", "", "INFO does not tell redis_version", ""},
		"evicts":            {"maxmemory_policy", "allkeys-lru", "", "maxmemory-policy is allkeys-lru"},
		"evicts volatile":   {"maxmemory_policy", "volatile-ttl", "", "set it to noeviction"},
		"no policy":         {"maxmemory_policy", "", "INFO does not tell maxmemory_policy", ""},
		"no limit":          {"maxmemory", "0", "set it well below the host's memory", ""},
		"untold limit":      {"maxmemory", "", "INFO does not tell maxmemory:", ""},
		"not persistent":    {"aof_enabled", "0", "set appendonly yes", ""},
		"no persistence":    {"aof_enabled", "", "INFO does not tell aof_enabled", ""},
	} {
		info := map[string]string{test.field: test.value}
		for field, value := range good {
			if field != test.field {
				info[field] = value
			}
		}
		if test.value == "" {
			delete(info, test.field)
		}
		warnings, err := judge(info)
		if test.refusal != "" {
			require.ErrorIs(t, err, ErrUnfit, name)
			require.ErrorContains(t, err, test.refusal, name)
			var unfit *UnfitError
			require.ErrorAs(t, err, &unfit, name)
			require.NotEmpty(t, unfit.Remedy, name)
			continue
		}
		require.NoError(t, err, name)
		if test.warning == "" {
			require.Empty(t, warnings, name)
			continue
		}
		require.Len(t, warnings, 1, name)
		require.NotEmpty(t, warnings[0].Remedy, name)
		require.Contains(t, warnings[0].String(), test.warning, name)
	}
	warnings, err := judge(nil)
	require.NoError(t, err)
	require.Len(t, warnings, 4)
}

func TestCheckServer(t *testing.T) {
	t.Parallel()
	check := func(t *testing.T, arguments ...string) ([]Warning, error) {
		server := testenv.StartRedis(t, arguments...)
		return CheckServer(t.Context(), open(t, server.URL()).Read)
	}
	t.Run("persistent", func(t *testing.T) {
		t.Parallel()
		warnings, err := check(t, "--appendonly", "yes")
		require.NoError(t, err)
		require.Empty(t, warnings)
	})
	t.Run("not persistent", func(t *testing.T) {
		t.Parallel()
		warnings, err := check(t)
		require.NoError(t, err)
		require.Len(t, warnings, 1)
		require.Contains(t, warnings[0].String(), "appendonly")
	})
	t.Run("without a limit", func(t *testing.T) {
		t.Parallel()
		warnings, err := check(t, "--appendonly", "yes", "--maxmemory", "0")
		require.NoError(t, err)
		require.Len(t, warnings, 1)
		require.Contains(t, warnings[0].String(), "maxmemory is not set")
	})
	t.Run("evicting", func(t *testing.T) {
		t.Parallel()
		_, err := check(t, "--maxmemory-policy", "allkeys-lru")
		require.ErrorIs(t, err, ErrUnfit)
		require.ErrorContains(t, err, "allkeys-lru")
		require.ErrorContains(t, err, "noeviction")
	})
	t.Run("command forbidden", func(t *testing.T) {
		t.Parallel()
		server := testenv.StartRedis(t)
		for command, warning := range map[string]string{"info": "does not let this user run INFO", "config": "appendonly is off"} {
			require.NoError(t, server.Client(t).Do(t.Context(), "acl", "setuser", "no-"+command, "on", ">p", "~*", "+@all", "-"+command).Err())
			warnings, err := CheckServer(t.Context(), open(t, "redis://no-"+command+":p@"+server.Addr()).Read)
			require.NoError(t, err)
			require.Len(t, warnings, 1)
			require.Contains(t, warnings[0].String(), warning)
		}
	})
	t.Run("absent", func(t *testing.T) {
		t.Parallel()
		_, err := CheckServer(t.Context(), open(t, "redis://"+testenv.FreeAddress(t)).Read)
		require.Error(t, err)
		require.NotErrorIs(t, err, ErrUnfit)
	})
	t.Run("refusals that waiting does not mend", func(t *testing.T) {
		t.Parallel()
		server := testenv.StartRedis(t, "--requirepass", "secret")
		for url, says := range map[string]string{
			server.URL():                               "NOAUTH",
			"redis://:wrong@" + server.Addr():          "WRONGPASS",
			"redis://:secret@" + server.Addr() + "/99": "DB index",
		} {
			_, err := CheckServer(t.Context(), open(t, url).Read)
			require.ErrorContains(t, err, says)
			require.ErrorIs(t, err, ErrUnfit)
		}
	})
}
