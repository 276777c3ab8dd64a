package redisconn

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"pushq/internal/certificates"
	"pushq/internal/testenv"
)

// Each refusal by a real server is told as what it is and what to do, and none of those
// that may be over soon makes pushq give the server up.
func TestRefusalsThatWaitingMayMendAreExplained(t *testing.T) {
	t.Parallel()
	authority := testenv.NewAuthority(t)
	tlsPort := startTLS(t, authority, time.Now().Add(time.Hour), "localhost")
	write := func(ctx context.Context, client redis.UniversalClient, script string) error {
		if script != "" {
			return client.Eval(ctx, script, []string{"key"}).Err()
		}
		return client.Set(ctx, "key", "value", 0).Err()
	}
	for name, test := range map[string]struct {
		arguments []string
		prepare   func(t *testing.T, server *testenv.Redis)
		url       func(server *testenv.Redis) string // nil for the server's own
		script    string                             // "" for a plain SET
		says      []string
	}{
		"full": {arguments: []string{"--maxmemory", "100kb", "--maxmemory-policy", "noeviction"}, says: []string{"no memory left (maxmemory)", "raise maxmemory", "OOM "}},
		"replica": {prepare: func(t *testing.T, server *testenv.Redis) {
			host, port, err := net.SplitHostPort(testenv.FreeAddress(t))
			require.NoError(t, err)
			require.NoError(t, server.Client(t).ReplicaOf(t.Context(), host, port).Err())
		}, says: []string{"it is a replica", "name its master by redis.url", "READONLY"}},
		"too few replicas": {arguments: []string{"--min-replicas-to-write", "1"}, says: []string{"too few replicas", "min-replicas-to-write", "NOREPLICAS"}},
		"no right": {
			arguments: []string{"--user", "reader", "on", ">p", "~*", "+@read"},
			url:       func(server *testenv.Redis) string { return "redis://reader:p@" + server.Addr() },
			says:      []string{"lacks a right", "docs/redis.md", "NOPERM"},
		},
		"no right within a script": {
			arguments: []string{"--user", "limited", "on", ">p", "~*", "+@all", "-set"},
			url:       func(server *testenv.Redis) string { return "redis://limited:p@" + server.Addr() },
			script:    "return redis.call('SET', KEYS[1], 1)",
			says:      []string{"lacks a right", "docs/redis.md", "script"},
		},
		"too many clients": {prepare: func(t *testing.T, server *testenv.Redis) {
			holder := server.Client(t).Conn()
			t.Cleanup(func() { _ = holder.Close() })
			require.NoError(t, holder.ConfigSet(t.Context(), "maxclients", "1").Err())
		}, says: []string{"as many clients as it allows", "maxclients"}},
		"TLS is asked for": {
			url:  func(*testenv.Redis) string { return "redis://localhost:" + tlsPort },
			says: []string{"ended the connection without an answer", "write rediss:// instead of redis://"},
		},
		"nobody there": {url: func(*testenv.Redis) string { return "redis://" + testenv.FreeAddress(t) }, says: []string{"nobody listens", "correct the address"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testenv.StartRedis(t, test.arguments...)
			if test.prepare != nil {
				test.prepare(t, server)
			}
			url := server.URL()
			if test.url != nil {
				url = test.url(server)
			}
			client := open(t, url).Read
			// A server that turns a client away may end the connection before its answer is read.
			testenv.EventuallyNoError(t, 20*time.Second, func() error {
				err := Explain(write(t.Context(), client, test.script))
				require.NotErrorIs(t, err, ErrUnfit)
				if err == nil {
					return errors.New("the server has taken it")
				}
				for _, part := range test.says {
					if !strings.Contains(err.Error(), part) {
						return err
					}
				}
				return nil
			})
		})
	}
}

func TestARedisWithoutTLSIsExplained(t *testing.T) {
	t.Parallel()
	clients, err := Server{
		URL: "rediss://" + testenv.StartRedis(t).Addr(), TLS: certificates.Files{CA: testenv.NewAuthority(t).File()},
		Log: slog.New(slog.DiscardHandler),
	}.Open(0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = clients.Close() })
	require.ErrorContains(t, Explain(clients.Read.Get(t.Context(), "key").Err()), "whether it speaks TLS on this port")
}

func TestOtherErrorsStayAsTheyAre(t *testing.T) {
	t.Parallel()
	for _, err := range []error{nil, errors.New("say for how long"), context.Canceled} {
		require.Equal(t, err, Explain(err))
	}
	require.ErrorContains(t, Explain(errors.New("ERR ACL failure in script: User u has no permissions to run the 'set' command")), "lacks a right")
	once := Explain(errors.New("OOM command not allowed"))
	require.Equal(t, once, Explain(once), "explained once")
}
