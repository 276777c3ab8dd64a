package limiter

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/redisconn"
	"pushq/internal/testenv"
)

func TestSlotsOfAllProcessesAreApart(t *testing.T) {
	t.Parallel()
	const delay, slots = 2 * time.Millisecond, 200
	for _, processes := range []int{1, 2, 4} {
		t.Run(fmt.Sprint(processes), func(t *testing.T) {
			t.Parallel()
			server := testenv.StartRedis(t)
			var limiters []*Limiter
			for range processes {
				limiters = append(limiters, startLimiter(t, server.URL(), delay))
			}
			c := gather(t, 20, Immediate, limiters...)
			requireApart(t, c.waitFor(t, slots), delay)
			for _, l := range limiters {
				require.Positive(t, l.Stats().Used, "each gets its share")
				require.Equal(t, delay, l.Stats().Delay)
			}
		})
	}
}

func TestSlotsOfTheEmbeddedRedisAreApart(t *testing.T) {
	t.Parallel()
	embedded, err := redisconn.StartEmbedded()
	require.NoError(t, err)
	t.Cleanup(embedded.Close)
	c := gather(t, 20, Immediate, startLimiter(t, embedded.URL(), 2*time.Millisecond))
	requireApart(t, c.waitFor(t, 100), 2*time.Millisecond)
}

func TestASlowRedisLosesNoSlots(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	proxy := testenv.NewProxy(t, server.Addr())
	proxy.SetLatency(40 * time.Millisecond)
	const delay = 4 * time.Millisecond
	l := startLimiter(t, proxy.URL(), delay)
	c := gather(t, 60, Immediate, l)
	c.waitFor(t, 50) // the first round trips
	dropped := l.Stats().Dropped
	slots := c.waitFor(t, 250)
	requireApart(t, slots, delay)
	// 250 slots of at most 5 ms; round trips one after the other would take ten
	// times as long.
	require.Less(t, slots[249].RedisAt.Sub(slots[50].RedisAt), 9*time.Second)
	require.Less(t, l.Stats().Dropped-dropped, int64(100))
}

// The times on this process' clock are those of Redis.
func TestBothTimesOfASlotAreTheSameInstant(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t) // on this host's clock
	l := startLimiter(t, server.URL(), 2*time.Millisecond)
	for range 20 {
		slot, err := l.Wait(t.Context(), Immediate)
		require.NoError(t, err)
		require.WithinDuration(t, slot.RedisAt, slot.At, time.Second)
		require.Less(t, time.Until(slot.At), time.Second)
	}
}

func TestTheSlowerConfigurationIsInForceEverywhere(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	fast, slow := startLimiter(t, server.URL(), 2*time.Millisecond), startLimiter(t, server.URL(), 20*time.Millisecond)
	testenv.Eventually(t, 5*time.Second, "the slower one to have announced itself", func() bool {
		return server.Client(t).HGet(t.Context(), paceKey, "delay").Val() == "20000"
	})
	requireApart(t, gather(t, 10, Immediate, fast).waitFor(t, 20), 20*time.Millisecond)
	require.Equal(t, 20*time.Millisecond, fast.Stats().Delay)
	require.Equal(t, 20*time.Millisecond, slow.Stats().Delay)
}

func TestALostReplyLosesSlotsButRepeatsNone(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	proxy := testenv.NewProxy(t, server.Addr())
	const delay = 2 * time.Millisecond
	c := gather(t, 20, Immediate, startLimiter(t, proxy.URL(), delay))
	for lost := 1; lost <= 3; lost++ {
		c.waitFor(t, 50*lost)
		proxy.CutReplyTo(reserveScript.Hash(), 1)
		testenv.Eventually(t, 10*time.Second, "a reply to be lost", func() bool { return proxy.Cut() == lost })
	}
	requireApart(t, c.waitFor(t, 250), delay)
}

func TestSlotsAreReservedByTwo(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	l := startLimiter(t, server.URL(), 2*time.Millisecond)
	c := gather(t, 50, Immediate, l)
	before, handedOut := scriptCalls(t, server), l.Stats()
	c.waitFor(t, len(c.taken())+300)
	after := l.Stats()
	slots := after.Used + after.Dropped - handedOut.Used - handedOut.Dropped
	require.LessOrEqual(t, int64(scriptCalls(t, server)-before), slots*3/4)
}
