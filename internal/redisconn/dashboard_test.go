package redisconn

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"pushq/internal/testenv"
)

// A bulk action whose reply is lost must not be run again.
func TestTheDashboardsClientNeverRepeats(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	proxy := testenv.NewProxy(t, server.Addr())
	client := open(t, proxy.URL()).OpenDashboard()
	require.NoError(t, client.Ping(t.Context()).Err())
	proxy.CutReplyTo("action", 1)
	require.Error(t, client.Incr(t.Context(), "action").Err())
	count, err := server.Client(t).Get(t.Context(), "action").Int()
	require.NoError(t, err)
	require.Equal(t, 1, count)

	require.NoError(t, client.Close())
	require.ErrorIs(t, client.Ping(t.Context()).Err(), redis.ErrClosed)
}
