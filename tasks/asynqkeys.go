package tasks

import (
	"context"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// asynq's own keys, as asynq v0.26.0 names them (internal/base: AllQueues,
// QueueKeyPrefix and the functions after it). They are used where its Client and
// Inspector have no call: enqueuing many tasks at once, registering a queue,
// listing from a cursor, taking from the archive, telling whether a queue is
// paused, completing a task together with its record, taking back what dead workers
// held, and mending faults.
const asynqQueuesKey = "asynq:queues"

// asynqStateKey is the list (pending, active) or sorted set (all others) of a
// queue's task ids in one state.
func asynqStateKey(queue string, state asynq.TaskState) string {
	return "asynq:{" + queue + "}:" + state.String()
}

// taskPlaces are where a queue keeps the ids of its tasks: the states that pushq
// uses.
var taskPlaces = []asynq.TaskState{
	asynq.TaskStatePending, asynq.TaskStateActive,
	asynq.TaskStateScheduled, asynq.TaskStateRetry, asynq.TaskStateArchived, asynq.TaskStateCompleted,
}

// isList tells the lists of ids from the sorted sets.
func isList(place asynq.TaskState) bool {
	return place == asynq.TaskStatePending || place == asynq.TaskStateActive
}

// sizeOf asks how many ids there are in one place.
func sizeOf(ctx context.Context, pipe redis.Pipeliner, queue string, place asynq.TaskState) *redis.IntCmd {
	if isList(place) {
		return pipe.LLen(ctx, asynqStateKey(queue, place))
	}
	return pipe.ZCard(ctx, asynqStateKey(queue, place))
}

// asynqLeaseKey is the sorted set of a queue's active ids by the second at which
// the worker that holds them is taken for dead.
func asynqLeaseKey(queue string) string { return "asynq:{" + queue + "}:lease" }

// asynqPausedKey exists while a queue is paused.
func asynqPausedKey(queue string) string { return "asynq:{" + queue + "}:paused" }

// asynqTaskKey is the hash of one task of a queue.
func asynqTaskKey(queue, id string) string { return "asynq:{" + queue + "}:t:" + id }

// asynqProcessedKey is the number of tasks that a queue has had handled. With a colon
// and a date of UTC behind it, it is the number of that day.
func asynqProcessedKey(queue string) string { return "asynq:{" + queue + "}:processed" }
