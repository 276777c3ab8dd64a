package limiter

import (
	"bytes"
	"log/slog"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"pushq/internal/redistest"
	"pushq/internal/testenv"
)

func override(t testing.TB, client redis.UniversalClient, delay time.Duration) {
	t.Helper()
	require.NoError(t, Override(t.Context(), client, testKeys, delay, time.Minute))
}

func TestAnOverrideOnlySlowsDown(t *testing.T) {
	redistest.OnEveryServer(t, func(t *testing.T, client redis.UniversalClient) {
		warm(t, client)
		override(t, client, 100*time.Millisecond)
		got := reserve(t, client, 4, 4000, 10_000)
		require.Equal(t, equal(100_000, 3), gaps(got.slots))
		require.EqualValues(t, 100_000, got.delay)
		require.EqualValues(t, 100_000, got.override)
		require.EqualValues(t, 4000, field(t, client, "delay"), "what processes are configured with is kept apart")

		override(t, client, 200*time.Millisecond)
		require.Equal(t, equal(200_000, 3), gaps(reserve(t, client, 4, 4000, 10_000).slots), "a later one replaces it")

		warm(t, client)
		override(t, client, time.Millisecond)
		setFields(t, client, "override", 0, "speed", 1)
		got = reserve(t, client, 4, 4000, 10_000)
		require.Equal(t, equal(4000, 3), gaps(got.slots), "never faster than configured")
		require.EqualValues(t, 4000, got.delay)
	})
}

func TestAnOverrideEndsByItself(t *testing.T) {
	t.Parallel()
	client := redistest.Connect(t, testenv.StartRedis(t).URL())
	warm(t, client)
	require.NoError(t, Override(t.Context(), client, testKeys, 100*time.Millisecond, time.Second))
	require.EqualValues(t, 100_000, reserve(t, client, 1, 4000, 10_000).delay)
	testenv.Eventually(t, 10*time.Second, "the override to end", func() bool {
		return reserve(t, client, 0, 4000, 10_000).delay == 4000
	})
}

// Slots that other processes hold at the slow pace come on top of those handed
// out at the full one.
func TestTheFullPaceComesBackWithRoomForSlowSlots(t *testing.T) {
	redistest.OnEveryServer(t, func(t *testing.T, client redis.UniversalClient) {
		override(t, client, 10*time.Second)
		now := warm(t, client)
		setFields(t, client, "next", now+100_000_000)
		got := reserve(t, client, 2, 4000, 10_000)
		require.Equal(t, []int64{now + 100_000_000, now + 110_000_000}, got.slots, "far ahead at such a pace is no jump of the clock")

		reset, err := ResetOverride(t.Context(), client, testKeys)
		require.NoError(t, err)
		require.True(t, reset)
		got = reserve(t, client, 3, 4000, 10_000)
		require.Len(t, got.slots, 3)
		require.Equal(t, got.now+10_000, got.slots[0], "nobody waits for the slow slots to pass")
		for _, gap := range gaps(got.slots) {
			require.Greater(t, gap, int64(6000), "a fifth slower, and cold")
		}
		setFields(t, client, "warm_at", got.now-10_000_000)
		for _, gap := range gaps(reserve(t, client, 3, 4000, 10_000).slots) {
			require.InDelta(t, 5000, gap, 5)
		}
		setFields(t, client, "speed_at", got.now-21_000_000)
		require.Equal(t, equal(4000, 2), gaps(reserve(t, client, 3, 4000, 10_000).slots))

		reset, err = ResetOverride(t.Context(), client, testKeys)
		require.NoError(t, err)
		require.False(t, reset)
	})
}

// A pace that a 429 has brought down further stays there.
func TestTheEndOfAnOverrideSpeedsNothingUp(t *testing.T) {
	redistest.OnEveryServer(t, func(t *testing.T, client redis.UniversalClient) {
		now := warm(t, client)
		setFields(t, client, "override", 10_000, "speed", 0.5, "speed_at", now)
		require.InDelta(t, 8000, gaps(reserve(t, client, 2, 4000, 10_000).slots)[0], 50)
	})
}

func TestReadPaceChangesNothing(t *testing.T) {
	redistest.OnEveryServer(t, func(t *testing.T, client redis.UniversalClient) {
		pace, err := ReadPace(t.Context(), client, testKeys)
		require.NoError(t, err)
		require.Equal(t, Pace{Speed: 1}, pace)
		require.Empty(t, client.Keys(t.Context(), "*").Val())

		now := warm(t, client)
		reserve(t, client, 0, 4000, 10_000)
		override(t, client, time.Second/3)
		setFields(t, client, "speed", 0.5, "speed_at", now-10_000_000)
		require.NoError(t, client.Set(t.Context(), brakeKey, "429", 30*time.Second).Err())
		before := client.HGetAll(t.Context(), paceKey).Val()
		pace, err = ReadPace(t.Context(), client, testKeys)
		require.NoError(t, err)
		require.Equal(t, 4*time.Millisecond, pace.Announced)
		require.Equal(t, 333_334*time.Microsecond, pace.Override, "rounded to the slower side")
		require.InDelta(t, time.Minute, pace.OverrideLasts, float64(10*time.Second))
		require.InDelta(t, 0.6, pace.Speed, 0.05)
		require.InDelta(t, 30*time.Second, pace.Brake, float64(10*time.Second))
		require.Equal(t, before, client.HGetAll(t.Context(), paceKey).Val())

		setFields(t, client, "delay_at", now-20_000_000)
		pace, err = ReadPace(t.Context(), client, testKeys)
		require.NoError(t, err)
		require.Zero(t, pace.Announced, "nobody has announced anything lately")
	})
}

// Every process goes by an override within a second, and by its end too.
func TestEveryProcessHearsOfAnOverride(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	client := redistest.Connect(t, server.URL())
	var log bytes.Buffer
	first := Start(redistest.Connect(t, server.URL()), Options{Keys: testKeys, Delay: 5 * time.Millisecond, Log: slog.New(slog.NewTextHandler(&log, nil))})
	t.Cleanup(first.Stop)
	crowd := gather(t, 20, Immediate, first, startLimiter(t, server.URL(), 5*time.Millisecond))
	crowd.waitFor(t, 100)

	override(t, client, 200*time.Millisecond)
	begun := client.Time(t.Context()).Val()
	after := func(since time.Time) (count int) {
		for _, slot := range crowd.taken() {
			if slot.RedisAt.After(since) {
				count++
			}
		}
		return count
	}
	testenv.Eventually(t, 20*time.Second, "some slow slots", func() bool { return after(begun.Add(time.Second)) >= 8 })
	slow := crowd.taken()
	for place := range slow {
		if place > 0 && slow[place-1].RedisAt.After(begun.Add(time.Second)) {
			require.GreaterOrEqual(t, slow[place].RedisAt.Sub(slow[place-1].RedisAt), 200*time.Millisecond)
		}
	}

	_, err := ResetOverride(t.Context(), client, testKeys)
	require.NoError(t, err)
	ended := client.Time(t.Context()).Val()
	testenv.Eventually(t, 20*time.Second, "the full pace", func() bool { return after(ended) >= 300 })
	first.Stop()
	require.NotContains(t, log.String(), "another process")
}
