package tasks

import (
	"context"
	_ "embed" // the scripts
	"fmt"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

var (
	//go:embed scripts/take.lua
	takeSource string
	//go:embed scripts/give_back.lua
	giveBackSource string

	takeScript     = redis.NewScript(takeSource)
	giveBackScript = redis.NewScript(giveBackSource)
)

// A Taken is a task of asynq that somebody has taken from its queue.
type Taken struct {
	ID      string
	Message string // as asynq keeps it
}

// Take takes the oldest tasks of a queue, as many as there are up to count, unless it
// is paused. leaseEnd is when others may have them, unless the lease is extended; in
// microseconds, it also names the call: the same one again gets the same tasks, so it
// may be repeated if its answer is lost.
func Take(ctx context.Context, client redis.UniversalClient, queue string, leaseEnd time.Time, count int) ([]Taken, error) {
	reply, err := takeScript.Run(ctx, client,
		[]string{asynqStateKey(queue, asynq.TaskStatePending), asynqPausedKey(queue), asynqStateKey(queue, asynq.TaskStateActive), asynqLeaseKey(queue)},
		leaseScore(leaseEnd), asynqTaskKey(queue, ""), count,
	).StringSlice()
	if err != nil {
		return nil, fmt.Errorf("take tasks of queue %s: %w", queue, err)
	}
	taken := make([]Taken, 0, len(reply)/2)
	for place := 0; place+1 < len(reply); place += 2 {
		taken = append(taken, Taken{ID: reply[place], Message: reply[place+1]})
	}
	return taken, nil
}

// leaseScore is a time in seconds, to the microsecond.
func leaseScore(at time.Time) string {
	micros := at.UnixMicro()
	return fmt.Sprintf("%d.%06d", micros/1e6, micros%1e6)
}

// GiveBack puts tasks, in the order in which they were taken, where Take finds them
// first. Those that others have got meanwhile stay where they are.
func GiveBack(ctx context.Context, client redis.UniversalClient, queue string, taken []Taken) error {
	arguments := []any{asynqTaskKey(queue, "")}
	for place := range taken {
		arguments = append(arguments, taken[len(taken)-1-place].ID)
	}
	err := giveBackScript.Run(ctx, client,
		[]string{asynqStateKey(queue, asynq.TaskStateActive), asynqLeaseKey(queue), asynqStateKey(queue, asynq.TaskStatePending)},
		arguments...,
	).Err()
	if err != nil {
		return fmt.Errorf("give %d tasks back to queue %s: %w", len(taken), queue, err)
	}
	return nil
}
