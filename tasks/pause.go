package tasks

import (
	"context"
	"fmt"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// A QueueStatus is what an operator wants to know of a queue at a glance. It is
// read without asynq's own statistics, which one ghost can break.
type QueueStatus struct {
	Queue  string
	Paused bool
	// Changed says that the call that returned this has paused or resumed the
	// queue; otherwise it was so before.
	Changed bool

	Pending, Active, Scheduled, Retry, Archived int64
}

// Pause stops both queues of the channel: workers take nothing more from them
// until Resume, whatever process they are in. New pushes are still accepted,
// and what a worker has taken already is finished. The sizes are those right
// after the pause.
func Pause(ctx context.Context, client redis.UniversalClient, channel Channel) ([]QueueStatus, error) {
	return eachQueue(channel, func(queue string) (QueueStatus, error) {
		// As asynq's Inspector does, which takes a second pause for an error.
		paused, err := client.SetNX(ctx, asynqPausedKey(queue), time.Now().Unix(), 0).Result()
		if err != nil {
			return QueueStatus{}, fmt.Errorf("pause queue %s: %w", queue, err)
		}
		status, err := readStatus(ctx, client, queue)
		status.Changed = paused
		return status, err
	})
}

// Resume lets workers take pushes from both queues of the channel again. The
// sizes are those right before, which is what has gathered: workers begin to
// take it at once.
func Resume(ctx context.Context, client redis.UniversalClient, channel Channel) ([]QueueStatus, error) {
	return eachQueue(channel, func(queue string) (QueueStatus, error) {
		status, err := readStatus(ctx, client, queue)
		if err != nil {
			return QueueStatus{}, err
		}
		deleted, err := client.Del(ctx, asynqPausedKey(queue)).Result()
		if err != nil {
			return QueueStatus{}, fmt.Errorf("resume queue %s: %w", queue, err)
		}
		status.Paused, status.Changed = false, deleted > 0
		return status, nil
	})
}

func eachQueue(channel Channel, change func(queue string) (QueueStatus, error)) ([]QueueStatus, error) {
	var all []QueueStatus
	for _, queue := range channel.Queues() {
		status, err := change(queue)
		if err != nil {
			return all, err
		}
		all = append(all, status)
	}
	return all, nil
}

func readStatus(ctx context.Context, client redis.UniversalClient, queue string) (QueueStatus, error) {
	pipe := client.Pipeline()
	paused := pipe.Exists(ctx, asynqPausedKey(queue))
	pending := sizeOf(ctx, pipe, queue, asynq.TaskStatePending)
	active := sizeOf(ctx, pipe, queue, asynq.TaskStateActive)
	scheduled := sizeOf(ctx, pipe, queue, asynq.TaskStateScheduled)
	retry := sizeOf(ctx, pipe, queue, asynq.TaskStateRetry)
	archived := sizeOf(ctx, pipe, queue, asynq.TaskStateArchived)
	if _, err := pipe.Exec(ctx); err != nil {
		return QueueStatus{}, fmt.Errorf("read the sizes of queue %s: %w: %w", queue, ErrUnreadable, err)
	}
	return QueueStatus{
		Queue: queue, Paused: paused.Val() > 0,
		Pending: pending.Val(), Active: active.Val(), Scheduled: scheduled.Val(), Retry: retry.Val(), Archived: archived.Val(),
	}, nil
}

// PausedQueues returns the queues of the channel that somebody has paused.
func PausedQueues(ctx context.Context, client redis.UniversalClient, channel Channel) ([]string, error) {
	var paused []string
	for _, queue := range channel.Queues() {
		found, err := client.Exists(ctx, asynqPausedKey(queue)).Result()
		if err != nil {
			return nil, fmt.Errorf("tell whether queue %s is paused: %w: %w", queue, ErrUnreadable, err)
		}
		if found > 0 {
			paused = append(paused, queue)
		}
	}
	return paused, nil
}
