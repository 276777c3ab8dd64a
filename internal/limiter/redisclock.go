package limiter

import (
	"math"
	"slices"
	"time"
)

// sampleLife is how long the fastest round trip is trusted for the offset.
const sampleLife = 10 * time.Second

// jumpTolerance is the disagreement of two samples, beyond what their round
// trips explain, from which the older one is thrown away.
const jumpTolerance = 50 * time.Millisecond

// redisClock translates Redis' time to this process' monotonic clock, by the
// fastest of the recent round trips, and knows how long a round trip takes.
// The zero value is ready; it belongs to the dispatcher's goroutine.
type redisClock struct {
	best sample

	recent  []time.Duration // the last round trips
	typical time.Duration   // their median: one lost reply says nothing of the others
}

// typicalOf is the number of round trips that the typical one is chosen from.
const typicalOf = 9

// A sample says that Redis' clock showed redis when ours showed local.
type sample struct {
	local, redis time.Time
	roundTrip    time.Duration
}

func (c *redisClock) observe(r reservation) {
	roundTrip := r.received.Sub(r.sent)
	c.recent = append(c.recent, roundTrip)
	if len(c.recent) > typicalOf {
		c.recent = c.recent[1:]
	}
	c.typical = slices.Sorted(slices.Values(c.recent))[len(c.recent)/2]
	middle := r.sent.Add(roundTrip / 2)
	jumped := r.now.Sub(c.best.redis) - middle.Sub(c.best.local) // of Redis' clock, as after a failover
	if c.best.local.IsZero() || roundTrip <= c.best.roundTrip ||
		middle.Sub(c.best.local) > sampleLife || jumped.Abs() > roundTrip+jumpTolerance {
		c.best = sample{local: middle, redis: r.now, roundTrip: roundTrip}
	}
}

// local returns the instant on this process' clock.
func (c *redisClock) local(redis time.Time) time.Time {
	return c.best.local.Add(redis.Sub(c.best.redis))
}

// lead is how long before its time a slot is given to a waiter, who has one
// round trip to make before.
func (c *redisClock) lead() time.Duration { return max(minLead, 2*c.typical) }

// ahead is how far in the future a slot must lie when Redis hands it out, to
// arrive here with the full lead.
func (c *redisClock) ahead() time.Duration { return c.lead() + c.typical + time.Millisecond }

// reach is how far ahead of now the slots lie that are kept reserved at a pace,
// twice over.
func (c *redisClock) reach(pace time.Duration) time.Duration {
	return c.ahead() + 2*time.Duration(c.horizon(pace))*pace
}

// horizon is the number of slots to keep reserved at a pace.
func (c *redisClock) horizon(pace time.Duration) int {
	return int(math.Ceil(float64(2*c.typical+c.lead())/float64(pace))) + 2
}
