package redisconn

import (
	"context"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"pushq/internal/testenv"
)

func open(t testing.TB, url string) *Clients {
	t.Helper()
	clients, err := Open(url, 8)
	require.NoError(t, err)
	t.Cleanup(func() { _ = clients.Close() })
	return clients
}

func (c *Clients) each() map[string]redis.UniversalClient {
	return map[string]redis.UniversalClient{"intake": c.Intake, "queue": c.Queue, "records": c.Records, "control": c.Control, "read": c.Read}
}

func TestOpenDialsNothing(t *testing.T) {
	t.Parallel()
	open(t, "redis://"+testenv.FreeAddress(t))
}

func TestEachClientRepeatsAsItsUserCanBear(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	proxy := testenv.NewProxy(t, server.Addr())
	clients := open(t, proxy.URL())
	for name, repeats := range map[string]bool{"intake": false, "queue": true, "records": true, "control": true, "read": false} {
		client := clients.each()[name]
		require.NoError(t, client.Ping(t.Context()).Err())
		proxy.CutReplyTo(name, 1)
		err := client.Incr(t.Context(), name).Err()
		count, countErr := server.Client(t).Get(t.Context(), name).Int()
		require.NoError(t, countErr)
		if repeats {
			require.NoError(t, err, name)
			require.Equal(t, 2, count, name)
		} else {
			require.Error(t, err, name)
			require.Equal(t, 1, count, name)
		}
	}
}

func TestIntakeGivesUpWithinItsTimeout(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	clients := open(t, server.URL())
	require.NoError(t, clients.Intake.Ping(t.Context()).Err())
	server.Freeze()
	defer server.Thaw()
	took := testenv.Fastest(10, intakeTimeout+time.Second, func() {
		require.Error(t, clients.Intake.Set(t.Context(), "key", "value", 0).Err())
	})
	require.GreaterOrEqual(t, took, intakeTimeout/2)
	require.Less(t, took, intakeTimeout+time.Second)
}

func TestReadAndControlObeyContexts(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	clients := open(t, server.URL())
	server.Freeze()
	defer server.Thaw()
	for name, client := range map[string]redis.UniversalClient{"control": clients.Control, "read": clients.Read} {
		took := testenv.Fastest(10, time.Second, func() {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			require.Error(t, client.Ping(ctx).Err(), name)
		})
		require.Less(t, took, time.Second, name)
	}
}

// A server that is not there is not an answer to wait for.
func TestNothingListens(t *testing.T) {
	t.Parallel()
	clients := open(t, "redis://"+testenv.FreeAddress(t))
	for name, client := range clients.each() {
		started := time.Now()
		err := client.Ping(t.Context()).Err()
		var refused *net.OpError
		require.ErrorAs(t, err, &refused, name)
		require.Less(t, time.Since(started), time.Minute, name)
	}
}

func TestCloseLeavesNothingRunning(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	clients, err := Open(server.URL(), 8)
	require.NoError(t, err)
	for _, client := range clients.each() {
		require.NoError(t, client.Ping(t.Context()).Err())
	}
	require.NoError(t, clients.Close())
	for name, client := range clients.each() {
		require.Error(t, client.Ping(t.Context()).Err(), name)
	}
	probe := server.Client(t)
	testenv.Eventually(t, 5*time.Second, "the server to have no connection but this one", func() bool {
		list, err := probe.ClientList(t.Context()).Result()
		return err == nil && strings.Count(list, "\n") == 1
	})
}

// Not parallel: it counts the goroutines of the whole process.
func TestCloseEndsItsGoroutines(t *testing.T) {
	server := testenv.StartRedis(t)
	before := runtime.NumGoroutine()
	for range 5 {
		clients, err := Open(server.URL(), 8)
		require.NoError(t, err)
		for _, client := range clients.each() {
			require.NoError(t, client.Ping(t.Context()).Err())
		}
		require.NoError(t, clients.Close())
	}
	testenv.Eventually(t, 5*time.Second, "the goroutines to end", func() bool { return runtime.NumGoroutine() <= before })
}
