// Package redistest runs tests on the kinds of Redis that pushq uses, with connections
// like its own.
package redistest

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"pushq/internal/redisconn"
	"pushq/internal/testenv"
)

// Connect returns a client as processes have it for control, until the test ends.
func Connect(t testing.TB, url string) redis.UniversalClient {
	t.Helper()
	clients, err := redisconn.Open(url, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = clients.Close() })
	return clients.Control
}

// OnEveryServer runs a test on Redis and on the embedded one, in parallel.
func OnEveryServer(t *testing.T, test func(t *testing.T, client redis.UniversalClient)) {
	t.Parallel()
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		test(t, Connect(t, testenv.StartRedis(t).URL()))
	})
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		embedded, err := redisconn.StartEmbedded()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(embedded.Close)
		test(t, Connect(t, embedded.URL()))
	})
}
