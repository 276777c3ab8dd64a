package redisconn

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"pushq/internal/testenv"
)

// A server or a proxy that does not know AUTH quotes the password in its refusal.
func TestPasswordsAreNotInErrors(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t, "--rename-command", "HELLO", "", "--rename-command", "AUTH", "")
	for _, password := range []string{"canary-password", strings.Repeat("canary-of-a-long-password-", 20)} {
		clients, err := Open("redis://user:"+password+"@"+server.Addr(), 1)
		require.NoError(t, err)
		defer func() { require.NoError(t, clients.Close()) }()
		for name, client := range map[string]redis.UniversalClient{
			"intake": clients.Intake, "queue": clients.Queue, "records": clients.Records, "control": clients.Control, "read": clients.Read,
		} {
			ping := client.Ping(t.Context())
			commands, err := client.Pipelined(t.Context(), func(pipe redis.Pipeliner) error {
				pipe.Ping(t.Context())
				return nil
			})
			require.Len(t, commands, 1)
			for _, err := range []error{ping.Err(), err, commands[0].Err()} {
				require.NotContains(t, fmt.Sprint(err), "canary", name)
			}
			require.ErrorContains(t, ping.Err(), "unknown command", name)
			require.ErrorContains(t, err, "unknown command", name)
		}
	}
}

// A proxy may quote AUTH in words of its own, and its answer is logged.
func TestPasswordsAreNotInTheLogOfRefusals(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t, "--requirepass", "canary-password")
	proxy := testenv.NewProxy(t, server.Addr())
	for _, wording := range []string{"upstream is away, it was told canary-password", "no such thing, with args beginning with: 'canary-passw"} {
		proxy.Reword("WRONGTYPE", wording)
		log := &testenv.Log{}
		clients, err := Server{URL: "redis://:canary-password@" + proxy.Addr(), Log: slog.New(slog.NewTextHandler(log, nil))}.Open(1)
		require.NoError(t, err)
		defer func() { require.NoError(t, clients.Close()) }()
		require.NoError(t, clients.Read.Set(t.Context(), "key", "text", 0).Err())
		require.Error(t, clients.Read.LPush(t.Context(), "key", "item").Err())
		require.Contains(t, log.String(), "redis refuses")
		require.NotContains(t, log.String(), "canary")
	}
}

// What those who look for an error of Redis find stays the same.
func TestMaskedErrorsAreTheSame(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	clients, err := Open(server.URL(), 1)
	require.NoError(t, err)
	defer func() { require.NoError(t, clients.Close()) }()
	require.ErrorIs(t, clients.Read.Get(t.Context(), "none").Err(), redis.Nil)
	err = clients.Read.Do(t.Context(), "CANARY-COMMAND", "argument").Err()
	require.True(t, redis.HasErrorPrefix(err, "unknown command"))
	require.NotContains(t, err.Error(), "argument")
}
