package limiter

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"pushq/internal/redistest"
)

// A reserved is the reply of reserve.lua; times in microseconds.
type reserved struct {
	now, brake, delay, override int64
	slots                       []int64
}

func reserve(t testing.TB, client redis.UniversalClient, wanted int, delay, ahead int64) reserved {
	t.Helper()
	reply, err := reserveScript.Run(t.Context(), client, []string{paceKey, brakeKey, overrideKey}, wanted, delay, ahead).Int64Slice()
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(reply), 4)
	return reserved{reply[0], reply[1], reply[2], reply[3], reply[4:]}
}

func gaps(slots []int64) []int64 {
	var all []int64
	for i := 1; i < len(slots); i++ {
		all = append(all, slots[i]-slots[i-1])
	}
	return all
}

func equal(gap int64, count int) []int64 { return slices.Repeat([]int64{gap}, count) }

func field(t testing.TB, client redis.UniversalClient, name string) int64 {
	t.Helper()
	value, err := client.HGet(t.Context(), paceKey, name).Int64()
	require.NoError(t, err)
	return value
}

func setFields(t testing.TB, client redis.UniversalClient, fields ...any) {
	t.Helper()
	require.NoError(t, client.HSet(t.Context(), paceKey, fields...).Err())
}

// warm makes the pace one that has been running: warm, and due about now.
func warm(t testing.TB, client redis.UniversalClient) (now int64) {
	t.Helper()
	now = client.Time(t.Context()).Val().UnixMicro()
	setFields(t, client, "next", now, "warm_at", now-10_000_000)
	return now
}

func TestReserveFromAFreshState(t *testing.T) {
	redistest.OnEveryServer(t, func(t *testing.T, client redis.UniversalClient) {
		before := client.Time(t.Context()).Val().UnixMicro()
		got := reserve(t, client, 3, 4000, 25_000)
		after := client.Time(t.Context()).Val().UnixMicro()
		require.GreaterOrEqual(t, got.now, before)
		require.LessOrEqual(t, got.now, after)
		require.Zero(t, got.brake)
		require.EqualValues(t, 4000, got.delay)
		require.Len(t, got.slots, 3)
		require.Equal(t, got.now+25_000, got.slots[0], "the first is as far ahead as asked")
		require.Equal(t, got.now, field(t, client, "warm_at"))
		require.Equal(t, got.now, field(t, client, "delay_at"))
		require.EqualValues(t, 4000, field(t, client, "delay"))
		require.InDelta(t, time.Hour, client.TTL(t.Context(), paceKey).Val(), float64(10*time.Second))
	})
}

func TestNoBurstAfterIdling(t *testing.T) {
	redistest.OnEveryServer(t, func(t *testing.T, client redis.UniversalClient) {
		for _, idle := range []int64{0, 500_000, 1_000_001, 60_000_000} {
			now := warm(t, client)
			setFields(t, client, "next", now-idle)
			got := reserve(t, client, 50, 4000, 10_000)
			first := int64(4000)
			if got.now-(now-idle) > 1_000_000 { // a busy machine may make it longer
				first = 5000
			}
			require.Equal(t, got.now+10_000, got.slots[0], "nothing from the past")
			for _, gap := range gaps(got.slots) {
				require.GreaterOrEqual(t, gap, int64(4000), idle)
			}
			// After a second the connections are cold.
			require.InDelta(t, first, gaps(got.slots)[0], 50, idle)
		}
	})
}

func TestWarmUp(t *testing.T) {
	redistest.OnEveryServer(t, func(t *testing.T, client redis.UniversalClient) {
		got := reserve(t, client, 600, 4000, 0)
		require.Len(t, got.slots, 600)
		steps := gaps(got.slots)
		require.EqualValues(t, 5000, steps[0], "25 % slower")
		require.True(t, slices.IsSortedFunc(steps, func(a, b int64) int { return int(b - a) }), "faster and faster")
		for i, step := range steps {
			if elapsed := got.slots[i] - got.now; elapsed >= 2_000_000 {
				require.EqualValues(t, 4000, step, "full after two seconds")
			} else {
				require.Greater(t, step, int64(4000))
			}
			if i > 0 && got.slots[i]-got.now >= 1_000_000 && got.slots[i-1]-got.now < 1_000_000 {
				require.InDelta(t, 4500, step, 5, "half way after one")
			}
		}
		require.Greater(t, got.slots[599]-got.now, int64(2_000_000))
	})
}

func TestManyCallersGetOnePace(t *testing.T) {
	redistest.OnEveryServer(t, func(t *testing.T, client redis.UniversalClient) {
		warm(t, client)
		var mutex sync.Mutex
		var all []int64
		var callers sync.WaitGroup
		for range 8 {
			callers.Go(func() {
				for range 20 {
					got := reserve(t, client, 1+rand.IntN(4), 500, rand.Int64N(50_000))
					mutex.Lock()
					all = append(all, got.slots...)
					mutex.Unlock()
				}
			})
		}
		callers.Wait()
		require.GreaterOrEqual(t, len(all), 160)
		slices.Sort(all)
		for _, gap := range gaps(all) {
			require.GreaterOrEqual(t, gap, int64(500))
		}
	})
}

func TestTheSlowestProcessWins(t *testing.T) {
	redistest.OnEveryServer(t, func(t *testing.T, client redis.UniversalClient) {
		now := warm(t, client)
		require.EqualValues(t, 4000, reserve(t, client, 0, 4000, 0).delay)
		require.EqualValues(t, 10_000, reserve(t, client, 0, 10_000, 0).delay)
		got := reserve(t, client, 5, 4000, 10_000)
		require.EqualValues(t, 10_000, got.delay)
		require.Equal(t, equal(10_000, 4), gaps(got.slots))

		setFields(t, client, "delay_at", now-14_000_000)
		require.EqualValues(t, 10_000, reserve(t, client, 0, 4000, 0).delay, "announced 14 s ago")
		require.Equal(t, now-14_000_000, field(t, client, "delay_at"), "a faster one does not prolong it")
		require.EqualValues(t, 10_000, reserve(t, client, 0, 10_000, 0).delay)
		require.GreaterOrEqual(t, field(t, client, "delay_at"), now, "its own announcement does")

		setFields(t, client, "delay_at", now-15_100_000)
		require.EqualValues(t, 4000, reserve(t, client, 0, 4000, 0).delay, "announced 15 s ago")

		setFields(t, client, "delay", 10_000, "delay_at", now+60_000_000)
		require.EqualValues(t, 4000, reserve(t, client, 0, 4000, 0).delay, "announced before the clock jumped back")
	})
}

func TestAClockThatJumpedBack(t *testing.T) {
	redistest.OnEveryServer(t, func(t *testing.T, client redis.UniversalClient) {
		const far = 5_000_000 + 100*4000
		now := warm(t, client)
		setFields(t, client, "next", now+3_000_000)
		require.Equal(t, now+3_000_000, reserve(t, client, 1, 4000, 0).slots[0], "a pace ahead is kept")

		hour := int64(time.Hour / time.Microsecond)
		for _, ahead := range []int64{far + 1_000_000, hour} {
			now = warm(t, client)
			setFields(t, client, "next", now+ahead, "warm_at", now+hour, "speed", "0.5", "speed_at", now+hour)
			got := reserve(t, client, 2, 4000, 20_000)
			require.Equal(t, got.now+20_000, got.slots[0])
			require.InDelta(t, 10_000, gaps(got.slots)[0], 100, "half the speed of a cold start")
			require.Equal(t, got.now, field(t, client, "warm_at"), "it warms up from now")
			require.Equal(t, got.now, field(t, client, "speed_at"), "it recovers from now")
		}
	})
}

// However slow the pace and however many ask, what was handed out is never
// taken for a clock that jumped back.
func TestThePaceIsNotResetByItself(t *testing.T) {
	redistest.OnEveryServer(t, func(t *testing.T, client redis.UniversalClient) {
		now := warm(t, client)
		setFields(t, client, "speed", "0.05", "speed_at", now)
		var all []int64
		for range 10 {
			got := reserve(t, client, 40, 4000, 20_000)
			all = append(all, got.slots...)
			if len(got.slots) > 0 {
				require.LessOrEqual(t, got.slots[len(got.slots)-1], got.now+5_400_000)
			}
		}
		require.Greater(t, len(all), 50)
		require.Less(t, len(all), 80, "there is a limit")
		for _, gap := range gaps(all) {
			require.Greater(t, gap, int64(70_000))
		}
	})
}

func TestNoSlotsUnderTheBrake(t *testing.T) {
	redistest.OnEveryServer(t, func(t *testing.T, client redis.UniversalClient) {
		now := warm(t, client)
		require.NoError(t, client.Set(t.Context(), brakeKey, "429", time.Minute).Err())
		got := reserve(t, client, 5, 4000, 10_000)
		require.Empty(t, got.slots)
		require.InDelta(t, time.Minute.Milliseconds(), got.brake, 5000)
		require.EqualValues(t, 4000, got.delay)
		require.Equal(t, got.now, field(t, client, "delay_at"), "it announces all the same")
		require.Equal(t, now, field(t, client, "next"), "nothing was handed out")

		require.NoError(t, client.Del(t.Context(), brakeKey).Err())
		got = reserve(t, client, 5, 4000, 10_000)
		require.Len(t, got.slots, 5)
		require.Zero(t, got.brake)
	})
}

func TestNoneWantedOnlyAnnounces(t *testing.T) {
	redistest.OnEveryServer(t, func(t *testing.T, client redis.UniversalClient) {
		got := reserve(t, client, 0, 3420, 10_000)
		require.Empty(t, got.slots)
		require.WithinDuration(t, client.Time(t.Context()).Val(), time.UnixMicro(got.now), 5*time.Second)
		require.EqualValues(t, 3420, got.delay)
		state := client.HGetAll(t.Context(), paceKey).Val()
		require.Equal(t, map[string]string{"delay": "3420", "delay_at": strconv.FormatInt(got.now, 10), "override": "0"}, state)
		require.Positive(t, client.TTL(t.Context(), paceKey).Val())
	})
}

func TestMicrosecondsAreExact(t *testing.T) {
	redistest.OnEveryServer(t, func(t *testing.T, client redis.UniversalClient) {
		warm(t, client)
		var all []int64
		for range 10 {
			got := reserve(t, client, 7, 3421, 50_000)
			all = append(all, got.slots...)
			stored := client.HGet(t.Context(), paceKey, "next").Val()
			require.Len(t, stored, 16)
			require.Equal(t, strconv.FormatInt(all[len(all)-1]+3421, 10), stored)
		}
		// A call that came more than the slots in hand later starts anew.
		for i, gap := range gaps(all) {
			if (i+1)%7 != 0 {
				require.EqualValues(t, 3421, gap)
			} else {
				require.GreaterOrEqual(t, gap, int64(3421))
			}
		}
	})
}
