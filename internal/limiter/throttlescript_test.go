package limiter

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"pushq/internal/redistest"
	"pushq/internal/testenv"
)

func throttle(t testing.TB, client redis.UniversalClient, pause int64) (brake int64) {
	t.Helper()
	brake, alone := throttleServed(t, client, pause, "")
	require.False(t, alone, "nobody counts who is served")
	return brake
}

func throttleServed(t testing.TB, client redis.UniversalClient, pause int64, served string) (brake int64, alone bool) {
	t.Helper()
	reply, err := throttleScript.Run(t.Context(), client, []string{paceKey, brakeKey}, pause, served, "429").Int64Slice()
	require.NoError(t, err)
	require.Len(t, reply, 3)
	return reply[0], reply[1] == 1
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
		requireThrottled(t, l, time.Minute)
		pace, err := l.Pace(t.Context())
		require.NoError(t, err)
		require.InDelta(t, 0.8, pace.Speed, 0.1)
		require.InDelta(t, time.Minute, pace.Brake, float64(10*time.Second))
		require.EqualValues(t, 1, l.Stats().Throttles)
	})
}

// The first 429 holds everybody up. Afterwards ten in a row do, with nobody served between
// them: one recipient that has too much stops nobody else.
func TestA429IsAboutOnePushAloneWhileOthersAreServed(t *testing.T) {
	redistest.OnEveryServer(t, func(t *testing.T, client redis.UniversalClient) {
		const pause = 60_000
		lift := func() { require.NoError(t, client.Del(t.Context(), brakeKey).Err()) }
		alone := func(served string) {
			t.Helper()
			before := speed(t, client)
			brake, alone := throttleServed(t, client, pause, served)
			require.True(t, alone)
			require.Zero(t, brake)
			require.Zero(t, client.Exists(t.Context(), brakeKey).Val())
			require.InDelta(t, before, speed(t, client), 1e-6, "no slower either")
		}
		everybody := func(served string) {
			t.Helper()
			brake, alone := throttleServed(t, client, pause, served)
			require.False(t, alone)
			require.InDelta(t, pause, brake, 30_000)
			require.EqualValues(t, 1, client.Exists(t.Context(), brakeKey).Val())
		}
		everybody("7")
		everybody("7") // was under way
		brake, isAlone := throttleServed(t, client, 2*pause, "8")
		require.False(t, isAlone)
		require.EqualValues(t, 2*pause, brake, "all wait already, and now for longer")
		lift()
		for range 9 {
			alone("8")
		}
		for range 9 {
			alone("9") // one was served in between
		}
		everybody("9")
		lift()
		for range 9 {
			alone("9") // it begins anew
		}
		everybody("9")
		lift()

		require.Positive(t, field(t, client, "doubt_until"))
		setFields(t, client, "doubt_until", client.Time(t.Context()).Val().UnixMicro()-1)
		everybody("10")
		lift()
		alone("3") // Redis has forgotten the circuit breaker, which counts anew
		require.InDelta(t, client.Time(t.Context()).Val().UnixMicro()+90_000_000+600_000_000, field(t, client, "doubt_until"), 60_000_000)
	})
}

func TestABrakeSaysSinceWhenAndWhy(t *testing.T) {
	redistest.OnEveryServer(t, func(t *testing.T, client redis.UniversalClient) {
		log := &testenv.Log{}
		l := Start(client, Options{Keys: testKeys, Delay: time.Millisecond, Log: slog.New(slog.NewJSONHandler(log, nil))})
		t.Cleanup(l.Stop)
		pace, err := l.Pace(t.Context())
		require.NoError(t, err)
		require.Zero(t, pace.Brake)
		require.Zero(t, pace.BrakedSince)

		before := client.Time(t.Context()).Val()
		_, err = l.Throttled(t.Context(), Throttle{Pause: time.Minute, Answer: "SWRVE 429: Rate Limit Exceeded"})
		require.NoError(t, err)
		after := client.Time(t.Context()).Val()
		pace, err = l.Pace(t.Context())
		require.NoError(t, err)
		require.Equal(t, "SWRVE 429: Rate Limit Exceeded", pace.BrakedBy)
		require.WithinRange(t, pace.BrakedSince, before.Add(-time.Millisecond), after.Add(time.Millisecond))

		since := pace.BrakedSince
		_, err = l.Throttled(t.Context(), Throttle{Pause: time.Hour, Answer: strings.Repeat("\u00e4", 1000)})
		require.NoError(t, err)
		pace, err = l.Pace(t.Context())
		require.NoError(t, err)
		require.Equal(t, since, pace.BrakedSince, "it goes on")
		require.Equal(t, strings.Repeat("\u00e4", maxAnswer/2), pace.BrakedBy, "the answer that asks for the longest wait")
		require.Equal(t, 1, strings.Count(log.String(), "the provider asks everybody to wait"), "once for each brake")

		require.NoError(t, client.Set(t.Context(), brakeKey, "429", time.Minute).Err()) // of an earlier pushq
		pace, err = l.Pace(t.Context())
		require.NoError(t, err)
		require.InDelta(t, time.Minute, pace.Brake, float64(30*time.Second))
		require.Zero(t, pace.BrakedSince)
		require.Empty(t, pace.BrakedBy)
		requireThrottled(t, l, time.Hour)
	})
}
