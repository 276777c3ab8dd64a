package breaker

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"pushq/internal/redistest"
	"pushq/internal/testenv"
)

// run has Run beside the test, until stop is called, which may be repeated.
func run(t *testing.T, b *Breaker) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { b.Run(ctx) })
	stop = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(stop)
	return stop
}

func TestALongCallKeepsItsPlaceWhileItsProcessLives(t *testing.T) {
	redistest.OnEveryServer(t, func(t *testing.T, client redis.UniversalClient) {
		own := options("fcm")
		own.Failures, own.Forget = 1, 2*time.Second
		b, other := New(client, own), New(client, own)
		stop := run(t, b)
		permit := allow(t, b)
		ctx, cancel := context.WithTimeout(t.Context(), 2*own.Forget)
		defer cancel()
		_, err := other.Allow(ctx, "")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.False(t, permit.Lapsed())

		stop() // the process dies
		stopped := time.Now()
		next := allow(t, other)
		require.LessOrEqual(t, time.Since(stopped), own.Forget+longestPause*3/2+time.Minute)
		require.False(t, next.Lapsed())
		require.True(t, permit.Lapsed(), "it must not be used beside the other one")
		require.Empty(t, b.old(), "nor be renewed")
	})
}

// A permit that is given back soon costs two commands, as if nobody renewed any.
func TestShortCallsAreNotRenewed(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	b := New(redistest.Connect(t, server.URL()), options("fcm"))
	b.Forget = 5 * time.Second // a look each second
	run(t, b)
	tell(t, allow(t, b), Good) // makes connections, loads the script and writes the copies
	commands := testenv.CountCommands(t, server.Addr())
	const calls = 250
	for range calls {
		permit := allow(t, b)
		time.Sleep(10 * time.Millisecond) // two seconds and a half in all
		tell(t, permit, Good)
	}
	testenv.Eventually(t, patience, "the last command to be seen", func() bool { return commands.Load() >= 2*calls })
	require.EqualValues(t, 2*calls, commands.Load())
	require.Empty(t, b.permits)
}

// All permits of a process are renewed by one command.
func TestManyLongCallsAreRenewedAtOnce(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	b := New(redistest.Connect(t, server.URL()), options("fcm"))
	b.Failures, b.Forget = 200, 10*time.Second
	permits := make([]*Permit, 200)
	for place := range permits {
		permits[place] = allow(t, b)
	}
	testenv.Eventually(t, patience, "all to be old", func() bool { return len(b.old()) == len(permits) })
	commands := testenv.CountCommands(t, server.Addr())
	b.renew(t.Context())
	require.Empty(t, b.old())
	testenv.Eventually(t, patience, "the command to be seen", func() bool { return commands.Load() > 0 })
	require.EqualValues(t, 1, commands.Load())
	require.Len(t, strings.Fields(server.Client(t).HGet(t.Context(), b.Hash, "unproven").Val()), len(permits))
	for _, permit := range permits {
		tell(t, permit, Void)
	}
	require.Empty(t, b.permits)
}

// What Redis does not take is tried again, and lapses before Redis forgets it.
func TestPermitsLapseWithoutRedis(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	proxy := testenv.NewProxy(t, server.Addr())
	b := New(redistest.Connect(t, proxy.URL()), options("fcm"))
	b.Forget = 3 * time.Second
	run(t, b)
	permit := allow(t, b)
	proxy.Refuse(true)
	testenv.Eventually(t, patience, "it to lapse", permit.Lapsed)
	require.NotEmpty(t, server.Client(t).HGet(t.Context(), b.Hash, "call:"+permit.call).Val())
	proxy.Refuse(false)
	time.Sleep(b.Forget / renewals * 2) // others may hold it by now
	require.True(t, permit.Lapsed())
}
