package testenv

import (
	"os"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

func TestRedisIsEmptyAndKeepsNothing(t *testing.T) {
	t.Parallel()
	server := StartRedis(t)
	client := server.Client(t)
	ctx := t.Context()

	require.Zero(t, client.DBSize(ctx).Val())
	for setting, value := range map[string]string{
		"save": "", "appendonly": "no", "maxmemory-policy": "noeviction", "bind": "127.0.0.1",
	} {
		require.Equal(t, map[string]string{setting: value}, client.ConfigGet(ctx, setting).Val())
	}
	options, err := redis.ParseURL(server.URL())
	require.NoError(t, err)
	require.Equal(t, server.Addr(), options.Addr)
	require.Zero(t, options.DB)
}

func TestRedisArguments(t *testing.T) {
	t.Parallel()
	client := StartRedis(t, "--maxmemory", "5mb", "--maxmemory-policy", "allkeys-lru").Client(t)
	require.Equal(t, "5242880", client.ConfigGet(t.Context(), "maxmemory").Val()["maxmemory"])
	require.Equal(t, "allkeys-lru", client.ConfigGet(t.Context(), "maxmemory-policy").Val()["maxmemory-policy"])
}

func TestRedisInClusterMode(t *testing.T) {
	t.Parallel()
	client := StartRedis(t, "--cluster-enabled", "yes").Client(t)
	require.Contains(t, client.ClusterInfo(t.Context()).Val(), "cluster_known_nodes:1")
}

func TestRedisWithAPassword(t *testing.T) {
	t.Parallel()
	client := StartRedis(t, "--requirepass", "secret").Client(t)
	require.ErrorContains(t, client.Ping(t.Context()).Err(), "NOAUTH")
}

func TestRedisWithAWrongArgument(t *testing.T) {
	t.Parallel()
	failed, said := failing(t, func(t testing.TB) { StartRedis(t, "--no-such-setting", "1") })
	require.True(t, failed)
	require.Contains(t, said, "redis-server ended at start")
	require.Contains(t, said, "no-such-setting")
}

func TestRedisIsMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	failed, said := failing(t, func(t testing.TB) { StartRedis(t) })
	require.True(t, failed)
	require.Contains(t, said, "run `make test`, which installs it")
}

func TestRedisStopAndStart(t *testing.T) {
	t.Parallel()
	server := StartRedis(t)
	client := server.Client(t)
	ctx := t.Context()
	require.NoError(t, client.Set(ctx, "key", "value", 0).Err())
	address, pid := server.Addr(), server.Pid()

	server.Stop()
	require.ErrorContains(t, client.Ping(ctx).Err(), "connection refused")
	require.Zero(t, processState(pid))

	server.Start()
	require.Equal(t, address, server.Addr())
	require.NotEqual(t, pid, server.Pid())
	require.ErrorIs(t, client.Get(ctx, "key").Err(), redis.Nil)

	failed, said := failing(t, func(t testing.TB) {
		running := *server
		running.t = t
		running.Start()
	})
	require.True(t, failed)
	require.Contains(t, said, "is running: Stop it before Start")
}

func TestRedisKeepsDataOverAStopIfAsked(t *testing.T) {
	t.Parallel()
	server := StartRedis(t, "--appendonly", "yes", "--appendfsync", "always")
	client := server.Client(t)
	require.NoError(t, client.Set(t.Context(), "key", "value", 0).Err())
	server.Stop()
	server.Start()
	require.Equal(t, "value", client.Get(t.Context(), "key").Val())
}

func TestRedisFreezeAndThaw(t *testing.T) {
	t.Parallel()
	server := StartRedis(t)
	client := server.Client(t).WithTimeout(50 * time.Millisecond)
	require.NoError(t, server.Client(t).Ping(t.Context()).Err())

	server.Freeze()
	require.ErrorIs(t, client.Ping(t.Context()).Err(), os.ErrDeadlineExceeded)

	server.Thaw()
	require.NoError(t, server.Client(t).Ping(t.Context()).Err())
}

func TestRedisEndsWithItsTestEvenIfFrozen(t *testing.T) {
	t.Parallel()
	var pid int
	t.Run("a test", func(t *testing.T) {
		server := StartRedis(t)
		pid = server.Pid()
		server.Freeze()
		require.Equal(t, byte('T'), processState(pid))
	})
	require.Zero(t, processState(pid))
}

func TestManyRedisStartAtOnce(t *testing.T) {
	t.Parallel()
	var starting sync.WaitGroup
	servers := make([]*Redis, 12)
	for i := range servers {
		starting.Go(func() { servers[i] = StartRedis(t) })
	}
	starting.Wait()
	for i, server := range servers {
		require.NoError(t, server.Client(t).Set(t.Context(), "me", i, 0).Err())
	}
	for i, server := range servers {
		me, err := server.Client(t).Get(t.Context(), "me").Int()
		require.NoError(t, err)
		require.Equal(t, i, me)
	}
}

func BenchmarkStartRedis(b *testing.B) {
	for b.Loop() {
		StartRedis(b).Stop()
	}
}
