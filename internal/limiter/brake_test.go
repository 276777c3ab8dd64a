package limiter

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/testenv"
)

func TestALongBrakeRefusesAtOnceUntilItIsLifted(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	one, other := startLimiter(t, server.URL(), 2*time.Millisecond), startLimiter(t, server.URL(), 2*time.Millisecond)
	_, err := other.Wait(t.Context(), Immediate)
	require.NoError(t, err)
	requireThrottled(t, one, time.Minute)

	started := time.Now()
	_, err = one.Wait(t.Context(), Immediate)
	var braked *BrakedError
	require.ErrorAs(t, err, &braked)
	require.InDelta(t, time.Minute, braked.Remaining, float64(30*time.Second))
	require.ErrorContains(t, err, "the provider asked to wait another ")
	_, err = other.Wait(t.Context(), Immediate) // hears of it when it asks for slots
	require.ErrorAs(t, err, &braked)
	require.Less(t, time.Since(started), 30*time.Second)

	require.NoError(t, server.Client(t).Del(t.Context(), brakeKey).Err())
	for _, l := range []*Limiter{one, other} {
		testenv.Eventually(t, 3*time.Second, "a slot after the brake was lifted", func() bool {
			_, err := l.Wait(t.Context(), Immediate)
			return err == nil
		})
	}
}

func TestAShortBrakeIsWaitedFor(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	one, other := startLimiter(t, server.URL(), 2*time.Millisecond), startLimiter(t, server.URL(), 2*time.Millisecond)
	_, err := other.Wait(t.Context(), Immediate)
	require.NoError(t, err)
	const pause = 700 * time.Millisecond
	started := time.Now()
	requireThrottled(t, one, pause)
	for _, l := range []*Limiter{one, other} {
		slot, err := l.Wait(t.Context(), Immediate)
		require.NoError(t, err)
		require.GreaterOrEqual(t, slot.RedisAt.Sub(started), pause-time.Millisecond)
		require.Less(t, slot.RedisAt.Sub(started), pause+time.Minute)
	}
}

func TestAShortBrakeThatIsLiftedIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	l := startLimiter(t, server.URL(), 2*time.Millisecond)
	const brake = 9 * time.Second
	took := testenv.Fastest(5, brake, func() {
		requireThrottled(t, l, brake)
		waiting := waitInBackground(t.Context(), l, Immediate)
		eventuallyWaiting(t, l, Immediate, 1)
		require.NoError(t, server.Client(t).Del(t.Context(), brakeKey).Err())
		require.NoError(t, receive(t, "a slot", waiting).err)
	})
	require.Less(t, took, brake)
}

func TestA429WithoutAPauseOnlySlowsDown(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	l := startLimiter(t, server.URL(), 20*time.Millisecond)
	requireThrottled(t, l, 0)
	slots := gather(t, 10, Immediate, l).waitFor(t, 10)
	requireApart(t, slots, 24*time.Millisecond) // 20 ms / 0.8, recovering
}

func TestThrottledWithoutRedisIsAnError(t *testing.T) {
	t.Parallel()
	l := startLimiter(t, "redis://"+testenv.FreeAddress(t), 2*time.Millisecond)
	_, err := l.Throttled(t.Context(), Throttle{Pause: time.Second})
	require.ErrorContains(t, err, "slow the pace down")
}
