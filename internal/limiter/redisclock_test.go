package limiter

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRedisClock(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	// An exchange starts at a time of ours and takes a round trip; Redis' clock
	// is ahead by an offset, and was read after a part of the round trip.
	type exchange struct {
		at, roundTrip, offset time.Duration
		part                  float64
	}
	for name, test := range map[string]struct {
		exchanges []exchange
		offset    time.Duration // believed
	}{
		"one":                         {[]exchange{{0, 2 * ms, 500 * ms, 0.5}}, 500 * ms},
		"one, lopsided":               {[]exchange{{0, 20 * ms, 500 * ms, 1}}, 510 * ms},
		"behind":                      {[]exchange{{0, 2 * ms, -time.Hour, 0.5}}, -time.Hour},
		"a faster one":                {[]exchange{{0, 20 * ms, 0, 1}, {1000 * ms, 2 * ms, 0, 0.5}}, 0},
		"one as fast":                 {[]exchange{{0, 2 * ms, 0, 1}, {1000 * ms, 2 * ms, 0, 0}}, -1 * ms},
		"a slower one":                {[]exchange{{0, 2 * ms, 0, 0.5}, {1000 * ms, 20 * ms, 0, 1}}, 0},
		"a slower one, still trusted": {[]exchange{{0, 2 * ms, 0, 0.5}, {9900 * ms, 20 * ms, 0, 1}}, 0},
		"a slower one after ten s":    {[]exchange{{0, 2 * ms, 0, 0.5}, {10_100 * ms, 20 * ms, 0, 1}}, 10 * ms},
		"drift":                       {[]exchange{{0, 2 * ms, 0, 0.5}, {1000 * ms, 20 * ms, 40 * ms, 0.5}}, 0},
		"a jump back":                 {[]exchange{{0, 2 * ms, 0, 0.5}, {1000 * ms, 20 * ms, -10_000 * ms, 0.5}}, -10_000 * ms},
		"a jump ahead":                {[]exchange{{0, 2 * ms, 0, 0.5}, {1000 * ms, 20 * ms, 80 * ms, 0.5}}, 80 * ms},
		"a slow one is no jump":       {[]exchange{{0, 2 * ms, 0, 0.5}, {1000 * ms, 500 * ms, 0, 1}}, 0},
	} {
		start := time.Now()
		var clock redisClock
		for _, e := range test.exchanges {
			sent := start.Add(e.at)
			read := sent.Add(time.Duration(e.part * float64(e.roundTrip)))
			clock.observe(reservation{sent: sent, received: sent.Add(e.roundTrip), now: time.UnixMicro(read.Add(e.offset).UnixMicro())})
		}
		instant := start.Add(time.Minute)
		require.WithinDuration(t, instant, clock.local(instant.Add(test.offset)), 10*time.Microsecond, name)
	}
}

func TestRedisClockKnowsTheRoundTrip(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	var clock redisClock
	require.Equal(t, 8*ms, clock.lead())
	start := time.Now()
	observe := func(roundTrip time.Duration) {
		clock.observe(reservation{sent: start, received: start.Add(roundTrip), now: start})
	}
	observe(5 * ms)
	require.Equal(t, 5*ms, clock.typical)
	require.Equal(t, 10*ms, clock.lead(), "two round trips")
	require.Equal(t, 16*ms, clock.ahead(), "the lead, the way, and one to spare")
	require.Equal(t, 7, clock.horizon(4*ms), "20 ms and two more")
	observe(5 * ms)
	observe(2 * time.Second)
	require.Equal(t, 5*ms, clock.typical, "a reply that was lost and asked for again says nothing")
	for range 5 {
		observe(ms)
	}
	require.Equal(t, ms, clock.typical, "most of the last nine")
	require.Equal(t, 8*ms, clock.lead(), "never less")
}
