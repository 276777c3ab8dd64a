package tasks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// pendingLookups is how many of the pushes at the front of a queue are asked
// how long they have been there: an operator's requeue leaves no time, and a
// ghost has none.
const pendingLookups = 10

// QueueStats are counts of one queue.
type QueueStats struct {
	Queue  string
	Tasks  map[asynq.TaskState]int64
	Paused bool
	// Oldest is how long the oldest push that is due has not been taken by any
	// worker, 0 if none is due.
	Oldest time.Duration
	// ActiveWithoutLease counts active pushes that asynq has forgotten about:
	// no worker holds them, and its recoverer does not see them.
	ActiveWithoutLease int64
}

// ReadQueueStats counts the queues of a channel in two round trips that cost
// the same however long the queues are. now is on the clock that all processes
// share. It returns the queues that could be read, and why the others could not.
//
// asynq's own GetQueueInfo samples tasks in a script, and fails if the hash of
// one is missing (v0.26.0, internal/rdb: memoryUsageCmd).
func ReadQueueStats(ctx context.Context, client redis.UniversalClient, channel Channel, now time.Time) ([]QueueStats, error) {
	var reading []*queueReading
	pipe := client.Pipeline()
	for _, queue := range channel.Queues() {
		reading = append(reading, readQueue(ctx, pipe, queue))
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	pipe = client.Pipeline()
	for _, queue := range reading {
		queue.readPending(ctx, pipe)
	}
	_, _ = pipe.Exec(ctx)

	var all []QueueStats
	var failures []error
	for _, queue := range reading {
		stats, err := queue.stats(now)
		if err != nil {
			failures = append(failures, fmt.Errorf("count queue %s: %w: %w", queue.name, ErrUnreadable, err))
			continue
		}
		all = append(all, stats)
	}
	return all, errors.Join(failures...)
}

// queueReading are the commands that count one queue.
type queueReading struct {
	name     string
	sizes    map[asynq.TaskState]*redis.IntCmd
	leases   *redis.IntCmd
	paused   *redis.IntCmd
	front    *redis.StringSliceCmd
	since    []*redis.StringCmd // of those at the front
	upcoming []*redis.ZSliceCmd // the first of those with a time
}

func readQueue(ctx context.Context, pipe redis.Pipeliner, queue string) *queueReading {
	r := &queueReading{
		name: queue, sizes: make(map[asynq.TaskState]*redis.IntCmd),
		leases: pipe.ZCard(ctx, asynqLeaseKey(queue)),
		paused: pipe.Exists(ctx, asynqPausedKey(queue)),
		front:  pipe.LRange(ctx, asynqStateKey(queue, asynq.TaskStatePending), -pendingLookups, -1),
	}
	for _, state := range taskPlaces {
		r.sizes[state] = sizeOf(ctx, pipe, queue, state)
		if state == asynq.TaskStateScheduled || state == asynq.TaskStateRetry {
			r.upcoming = append(r.upcoming, pipe.ZRangeWithScores(ctx, asynqStateKey(queue, state), 0, 0))
		}
	}
	return r
}

func (r *queueReading) readPending(ctx context.Context, pipe redis.Pipeliner) {
	for _, id := range r.front.Val() {
		r.since = append(r.since, pipe.HGet(ctx, asynqTaskKey(r.name, id), "pending_since"))
	}
}

func (r *queueReading) stats(now time.Time) (QueueStats, error) {
	stats := QueueStats{Queue: r.name, Tasks: make(map[asynq.TaskState]int64), Paused: r.paused.Val() > 0}
	failures := []error{r.leases.Err(), r.paused.Err(), r.front.Err()}
	for state, size := range r.sizes {
		stats.Tasks[state] = size.Val()
		failures = append(failures, size.Err())
	}
	for _, first := range r.upcoming {
		failures = append(failures, first.Err())
		for _, member := range first.Val() {
			stats.Oldest = max(stats.Oldest, now.Sub(time.Unix(int64(member.Score), 0)))
		}
	}
	for _, since := range r.since {
		if nanoseconds, err := since.Int64(); err == nil { // a ghost has none
			stats.Oldest = max(stats.Oldest, now.Sub(time.Unix(0, nanoseconds)))
		}
	}
	stats.ActiveWithoutLease = max(stats.Tasks[asynq.TaskStateActive]-r.leases.Val(), 0)
	return stats, errors.Join(failures...)
}
