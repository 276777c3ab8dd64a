package redisconn

import (
	"crypto/tls"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pushq/config"
	"pushq/internal/testenv"
)

func TestParse(t *testing.T) {
	t.Parallel()
	type target struct {
		network, address, user, password string
		database                         int
		serverName                       string // with TLS
	}
	for url, want := range map[string]target{
		"redis://localhost":               {"tcp", "localhost:6379", "", "", 0, ""},
		"redis://localhost/":              {"tcp", "localhost:6379", "", "", 0, ""},
		"redis://10.0.0.1:1/15":           {"tcp", "10.0.0.1:1", "", "", 15, ""},
		"redis://:p%40%2Fss@h:65535":      {"tcp", "h:65535", "", "p@/ss", 0, ""},
		"redis://user:@h":                 {"tcp", "h:6379", "user", "", 0, ""},
		"redis://[::1]":                   {"tcp", "[::1]:6379", "", "", 0, ""},
		"redis://[::1]:7/2":               {"tcp", "[::1]:7", "", "", 2, ""},
		"REDIS://h":                       {"tcp", "h:6379", "", "", 0, ""},
		"rediss://user:pw@r.example/3":    {"tcp", "r.example:6379", "user", "pw", 3, "r.example"},
		"rediss://[::1]:7":                {"tcp", "[::1]:7", "", "", 0, "::1"},
		"redis-socket:///run/redis.sock":  {"unix", "/run/redis.sock", "", "", 0, ""},
		"Redis-Socket:///r":               {"unix", "/r", "", "", 0, ""},
		"redis-socket://u:p@/a%20b?db=12": {"unix", "/a b", "u", "p", 12, ""},
		"redis-socket://:p@/r?db=0":       {"unix", "/r", "", "p", 0, ""},
	} {
		options, err := parse(url)
		require.NoError(t, err, url)
		got := target{options.Network, options.Addr, options.Username, options.Password, options.DB, ""}
		if options.TLSConfig != nil {
			require.GreaterOrEqual(t, options.TLSConfig.MinVersion, uint16(tls.VersionTLS12))
			require.False(t, options.TLSConfig.InsecureSkipVerify)
			got.serverName = options.TLSConfig.ServerName
		}
		require.Equal(t, want, got, url)
	}
}

var urlsOfAllKinds = []string{
	"redis://h", "redis://h/", "redis://h/0", "redis://h/00", "redis://h/2147483647", "redis://:p@h:1/2",
	"REDIS://h", "rediss://u:p%23@h:65535/15", "redis://[::1]", "redis://[::1]:6379/0", "redis://u:@h", "redis://:@h",
	"redis-socket:///r", "redis-socket:///r?db=2", "redis-socket://:pw@/run/redis.sock?db=0", "Redis-Socket:///r", "redis-socket:///a%20b",

	"redis", "redis:", "redis:h", "redis://", "redis:///0", "redis://:6379", "redis://h:", "redis://h:0", "redis://h:65536",
	"redis://h:x", "redis://h:+1", "redis://[::1]:", "redis://[::1", "redis://h/x", "redis://h/-1", "redis://h/+1", "redis://h//1", "redis://h/1/",
	"redis://h/2147483648", "redis://h?", "redis://h?db=1", "redis://h/0?pool_size=1", "redis://u:1#2@h", "redis://h#f",
	"redis://user@h", "redis://u:%zz@h", "redis://u: p@h", "redis://u:\x01@h", "http://h", "unix:///r", "h:6379", "/r",
	"redis-sentinel://a:1,b:2/0?master=m", "redis-cluster://a:1",
	"redis-socket:", "redis-socket://", "redis-socket:///", "redis-socket:///.", "redis-socket://run/r", "redis-socket:r", "redis-socket:/r", "redis-socket", "redis-socket:/a://b",
	"redis-socket:///r?", "redis-socket:///r?db=", "redis-socket:///r?db=-1", "redis-socket:///r?db=1&db=2", "redis-socket:///r?database=1",
	"redis-socket:///r?db=%31", "redis-socket://u@/r", "redis-socket:///r#f",
}

// What the configuration accepts, the connection does, and nothing else.
func TestParseAgreesWithTheConfiguration(t *testing.T) {
	t.Parallel()
	accepted := 0
	for _, url := range urlsOfAllKinds {
		if agrees(t, url) {
			accepted++
		}
	}
	require.Equal(t, 17, accepted)
}

func FuzzParseAgreesWithTheConfiguration(f *testing.F) {
	for _, url := range urlsOfAllKinds {
		f.Add(url)
	}
	f.Fuzz(func(t *testing.T, url string) {
		if url != "" { // the configuration says "is required"
			agrees(t, url)
		}
	})
}

func agrees(t *testing.T, url string) (accepted bool) {
	var settings config.Config
	settings.Redis.URL = config.RedisURL(url)
	complaints := settings.Validate().Error() // others are missing too
	_, err := parse(url)
	require.Equal(t, strings.Contains(complaints, "redis.url "), err != nil, "%q: %v", url, err)
	return err == nil
}

func TestErrorsShowNoPassword(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"redis://u:hush@h:x", "redis://u:hush%zz@h", "redis://u:1#hush@h", "redis://hush@h", "redis://h/hush", "redis-socket:///r?hush", "http://:hush@h",
	} {
		_, err := Open(url, 0)
		require.Error(t, err, url)
		require.NotContains(t, err.Error(), "hush")
	}
}

func TestOpenReachesTheServer(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "r.sock")
	server := testenv.StartRedis(t, "--unixsocket", socket, "--user", "someone", "on", ">p@ss", "~*", "+@all")
	ctx := t.Context()
	require.NoError(t, server.Client(t).Set(ctx, "database", "0", 0).Err())
	for number, url := range map[string]string{
		"0": server.URL(),
		"3": "redis://someone:p%40ss@" + server.Addr() + "/3",
		"4": "redis-socket://someone:p%40ss@" + socket + "?db=4",
		"5": "redis-socket://" + socket + "?db=5",
	} {
		clients := open(t, url)
		require.NoError(t, clients.Control.Set(ctx, "database", number, 0).Err())
		// All clients are at the same database.
		for name, client := range clients.each() {
			got, err := client.Get(ctx, "database").Result()
			require.NoError(t, err, "%s over %s", name, url)
			require.Equal(t, number, got, "%s over %s", name, url)
		}
	}
	wrong := open(t, "redis://someone:wrong@"+server.Addr())
	require.ErrorContains(t, wrong.Read.Ping(ctx).Err(), "WRONGPASS")
}
