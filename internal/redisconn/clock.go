package redisconn

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	clockInterval = 5 * time.Second
	clockSamples  = 5

	// MaxSkew is how far a host's clock may be from Redis' clock: asynq's
	// leases and schedules use each host's own clock.
	MaxSkew = 2 * time.Second
)

// Clock tells Redis' time, which all processes share, from this host's clock
// and the difference measured last. It is safe for concurrent use.
type Clock struct {
	// Key chooses the master of a cluster whose clock it is: the one that has
	// the key, and whose clock the scripts see that work on it. It is set before
	// the first use; the masters' clocks may differ.
	Key string

	client redis.UniversalClient
	host   func() time.Time

	mutex     sync.Mutex
	offset    time.Duration
	roundTrip time.Duration
}

// NewClock returns a clock that runs as the host's until Measure has succeeded.
// host is time.Now but in tests.
func NewClock(client redis.UniversalClient, host func() time.Time) *Clock {
	return &Clock{client: client, host: host}
}

// Now returns the time on Redis' clock.
func (c *Clock) Now() time.Time { return c.host().Add(c.Offset()) }

// Offset is how far Redis' clock is ahead of this host's.
func (c *Clock) Offset() time.Duration {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.offset
}

// RoundTrip is the fastest round trip of the last measurement, 0 before it.
func (c *Clock) RoundTrip() time.Duration {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.roundTrip
}

// Skewed reports whether this host's clock is too far off to work with.
func (c *Clock) Skewed() bool { return c.Offset().Abs() > MaxSkew }

// Measure compares the clocks in the middle of the fastest of five round trips.
func (c *Clock) Measure(ctx context.Context) error {
	best, offset := time.Duration(0), time.Duration(0)
	for sample := range clockSamples {
		started := time.Now()
		before := c.host()
		remote, err := c.remote(ctx)
		if err != nil {
			return fmt.Errorf("read the time of redis: %w", err)
		}
		roundTrip := time.Since(started)
		if sample == 0 || roundTrip < best {
			best = roundTrip
			offset = remote.Sub(before.Add(roundTrip / 2))
		}
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.offset, c.roundTrip = offset, best
	return nil
}

func (c *Clock) remote(ctx context.Context) (time.Time, error) {
	cluster, ok := c.client.(*redis.ClusterClient)
	if !ok {
		return c.client.Time(ctx).Result()
	}
	master, err := cluster.MasterForKey(ctx, c.Key)
	if err != nil {
		return time.Time{}, err
	}
	return master.Time(ctx).Result()
}

// Run measures every five seconds until ctx ends and calls observe after each
// measurement.
func (c *Clock) Run(ctx context.Context, observe func(error)) {
	ticker := time.NewTicker(clockInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			err := c.Measure(ctx)
			if ctx.Err() != nil {
				return
			}
			observe(err)
		}
	}
}
