package tasks

import (
	"time"

	"github.com/hibiken/asynq"
)

// asynqStatisticsKept is how long asynq keeps the numbers of a day (internal/rdb:
// statsTTL).
const asynqStatisticsKept = 90 * 24 * time.Hour

// completionKeys are the KEYS of complete.lua.
func completionKeys(queue, id string, now time.Time) []string {
	return []string{
		asynqStateKey(queue, asynq.TaskStateActive), asynqLeaseKey(queue),
		asynqStateKey(queue, asynq.TaskStateCompleted), asynqTaskKey(queue, id),
		asynqProcessedKey(queue) + ":" + now.UTC().Format(time.DateOnly), asynqProcessedKey(queue),
	}
}

// completionArguments are the last ARGV of complete.lua. Of a field that is there
// twice, the last counts: so the time of completion can be appended to a message.
func completionArguments(retention time.Duration, now time.Time) []any {
	kept := any("")
	if retention > 0 {
		kept = now.Add(retention).Unix()
	}
	return []any{appendNumber(nil, messageCompletedAt, now.Unix()), kept, now.Add(asynqStatisticsKept).Unix()}
}
