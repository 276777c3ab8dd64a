package tasks

import "github.com/hibiken/asynq"

// asynq's own keys, as asynq v0.26.0 names them (internal/base: AllQueues,
// QueueKeyPrefix and the functions after it). They are read where its
// Inspector has no call: registering a queue, listing from a cursor, and
// taking from the archive.
const asynqQueuesKey = "asynq:queues"

// asynqStateKey is the list (pending, active) or sorted set (all others) of a
// queue's task ids in one state.
func asynqStateKey(queue string, state asynq.TaskState) string {
	return "asynq:{" + queue + "}:" + state.String()
}

// asynqTaskKey is the hash of one task of a queue.
func asynqTaskKey(queue, id string) string { return "asynq:{" + queue + "}:t:" + id }
