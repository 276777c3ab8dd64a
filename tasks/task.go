package tasks

import (
	"time"

	"github.com/hibiken/asynq"
)

const (
	// maxRetry is never reached: the record counts attempts, and the handler
	// alone ends a push (asynq would archive one whose Retried has drifted).
	maxRetry = 1_000_000

	// taskTimeout bounds one run of the handler: a minute's wait for a slot,
	// the provider's timeout, and room.
	taskTimeout = 10 * time.Minute
)

// newTask returns the asynq task that carries the push, to be run at once.
func newTask(channel Channel, push Push, retention Retention) (*asynq.Task, error) {
	payload, err := push.encode()
	if err != nil {
		return nil, err
	}
	headers := make(map[string]string)
	for _, header := range push.headers() {
		if header.text != "" {
			headers[header.name] = header.text
		}
	}
	return asynq.NewTaskWithHeaders(channel.TaskType(), payload, headers,
		asynq.TaskID(push.ID),
		asynq.Queue(channel.queue(push)),
		asynq.MaxRetry(maxRetry),
		asynq.Timeout(taskTimeout),
		asynq.Retention(retention.Completed),
	), nil
}
