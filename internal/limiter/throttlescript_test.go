package limiter

import (
	"log/slog"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"pushq/internal/redistest"
)

func throttle(t testing.TB, client redis.UniversalClient, pause int64) (brake int64) {
	t.Helper()
	brake, err := throttleScript.Run(t.Context(), client, []string{paceKey, brakeKey}, pause).Int64()
	require.NoError(t, err)
	return brake
}

func speed(t testing.TB, client redis.UniversalClient) float64 {
	t.Helper()
	value, err := client.HGet(t.Context(), paceKey, "speed").Float64()
	require.NoError(t, err)
	return value
}

func TestThrottleSlowsDownAtMostOnceASecond(t *testing.T) {
	redistest.OnEveryServer(t, func(t *testing.T, client redis.UniversalClient) {
		require.Zero(t, throttle(t, client, 0))
		require.InDelta(t, 0.8, speed(t, client), 1e-6)
		require.InDelta(t, time.Hour, client.TTL(t.Context(), paceKey).Val(), float64(10*time.Second))
		now := client.Time(t.Context()).Val().UnixMicro()
		setFields(t, client, "cut_at", now) // at once, however busy the machine is
		throttle(t, client, 0)
		require.InDelta(t, 0.8, speed(t, client), 1e-6)

		setFields(t, client, "cut_at", now-1_000_000)
		throttle(t, client, 0)
		require.InDelta(t, 0.64, speed(t, client), 0.01)
		require.GreaterOrEqual(t, field(t, client, "cut_at"), now)

		setFields(t, client, "cut_at", now+3_600_000_000)
		throttle(t, client, 0)
		require.InDelta(t, 0.512, speed(t, client), 0.02, "the clock has jumped back")
	})
}

func TestThrottleStopsAtTheFloor(t *testing.T) {
	redistest.OnEveryServer(t, func(t *testing.T, client redis.UniversalClient) {
		for range 20 {
			throttle(t, client, 0)
			setFields(t, client, "cut_at", 0)
		}
		require.InDelta(t, 0.05, speed(t, client), 1e-6)
	})
}

func TestThePaceRecovers(t *testing.T) {
	redistest.OnEveryServer(t, func(t *testing.T, client redis.UniversalClient) {
		for _, test := range []struct {
			speed     string
			secondsOf int64
			gap       int64
		}{
			{"0.5", 0, 8000}, {"0.5", 10, 6667}, {"0.5", 30, 5000}, {"0.5", 50, 4000}, {"0.5", 500, 4000}, {"0.05", 0, 80_000}, {"1", 0, 4000},
		} {
			now := warm(t, client)
			setFields(t, client, "speed", test.speed, "speed_at", now-test.secondsOf*1_000_000)
			got := reserve(t, client, 2, 4000, 10_000)
			// Recovering goes on while this test runs.
			require.InDelta(t, test.gap, gaps(got.slots)[0], float64(test.gap)/10, test)
			require.GreaterOrEqual(t, gaps(got.slots)[0], int64(4000))
		}
		// A further 429 falls from where the speed has come to.
		now := warm(t, client)
		setFields(t, client, "speed", "0.5", "speed_at", now-10_000_000, "cut_at", now-10_000_000)
		throttle(t, client, 0)
		require.InDelta(t, 0.48, speed(t, client), 0.02)
	})
}

func TestTheLongestPauseAskedForIsTheBrake(t *testing.T) {
	redistest.OnEveryServer(t, func(t *testing.T, client redis.UniversalClient) {
		left := func() float64 { return float64(client.PTTL(t.Context(), brakeKey).Val().Milliseconds()) }
		require.Zero(t, throttle(t, client, 0))
		require.Zero(t, client.Exists(t.Context(), brakeKey).Val(), "no pause, no brake")
		require.EqualValues(t, 60_000, throttle(t, client, 60_000))
		require.InDelta(t, 60_000, left(), 5000)
		require.InDelta(t, 60_000, throttle(t, client, 500), 5000)
		require.InDelta(t, 60_000, throttle(t, client, 0), 5000)
		require.InDelta(t, 60_000, left(), 5000, "a shorter one does not shorten it")
		require.EqualValues(t, 90_000, throttle(t, client, 90_000))
		require.InDelta(t, 90_000, left(), 5000)
	})
}

func TestAThrottledPaceIsTold(t *testing.T) {
	redistest.OnEveryServer(t, func(t *testing.T, client redis.UniversalClient) {
		l := Start(client, Options{Keys: testKeys, Delay: time.Millisecond, Log: slog.New(slog.DiscardHandler)})
		t.Cleanup(l.Stop)
		require.NoError(t, l.Throttled(t.Context(), time.Minute))
		pace, err := l.Pace(t.Context())
		require.NoError(t, err)
		require.InDelta(t, 0.8, pace.Speed, 0.1)
		require.InDelta(t, time.Minute, pace.Brake, float64(10*time.Second))
		require.EqualValues(t, 1, l.Stats().Throttles)
	})
}
