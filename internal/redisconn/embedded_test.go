package redisconn

import (
	"runtime"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"pushq/internal/testenv"
)

func TestEmbeddedExpiresKeys(t *testing.T) {
	t.Parallel()
	embedded, err := StartEmbedded()
	require.NoError(t, err)
	defer embedded.Close()
	client := open(t, embedded.URL()).Read
	ctx := t.Context()
	require.NoError(t, client.Set(ctx, "short", "1", 500*time.Millisecond).Err())
	require.NoError(t, client.Set(ctx, "long", "1", time.Minute).Err())
	require.NoError(t, client.Set(ctx, "forever", "1", 0).Err())
	testenv.Eventually(t, 5*time.Second, "the key to expire", func() bool {
		return client.Get(ctx, "short").Err() == redis.Nil
	})
	require.NoError(t, client.Get(ctx, "long").Err())
	require.NoError(t, client.Get(ctx, "forever").Err())
	left := client.TTL(ctx, "long").Val()
	require.Greater(t, left, 40*time.Second)
	require.Less(t, left, time.Minute)
}

// It is no Redis to keep pushes in, and does not pretend to be one.
func TestNothingIsWrongWithAnEmbeddedServer(t *testing.T) {
	t.Parallel()
	embedded, err := StartEmbedded()
	require.NoError(t, err)
	defer embedded.Close()
	clients := open(t, embedded.URL())
	warnings, err := clients.CheckServer(t.Context())
	require.NoError(t, err)
	require.Empty(t, warnings)
	_, err = ReadMemory(t.Context(), clients.Read)
	require.ErrorIs(t, err, ErrUntold)
	clients.target.connections.mutex.Lock()
	defer clients.target.connections.mutex.Unlock()
	require.True(t, clients.target.connections.renewed.IsZero(), "its connections were opened anew")
}

// Not parallel: it counts the goroutines of the whole process.
func TestEmbeddedCloses(t *testing.T) {
	before := runtime.NumGoroutine()
	embedded, err := StartEmbedded()
	require.NoError(t, err)
	clients, err := Open(embedded.URL(), 0)
	require.NoError(t, err)
	for name, client := range clients.each() {
		require.NoError(t, client.Ping(t.Context()).Err(), name)
	}
	embedded.Close() // with connections open
	require.Error(t, clients.Read.Ping(t.Context()).Err())
	require.NoError(t, clients.Close())
	testenv.Eventually(t, 5*time.Second, "its goroutines to end", func() bool { return runtime.NumGoroutine() <= before })
}
