package tasks

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	"pushq/internal/testenv"
)

// endedText ends a task as the pipeline's answers do.
type endedText string

func (e endedText) Error() string        { return string(e) }
func (e endedText) Is(target error) bool { return target == asynq.SkipRetry }

type retryText string

func (r retryText) Error() string { return string(r) }

// startWorker serves the queues of every channel. Each task ends as its push says: the message
// is the text of the answer ("" for a success), "hold" keeps it until the test
// ends; a retry comes as many minutes after start as the push key says.
func startWorker(t *testing.T, server *testenv.Redis, start time.Time) {
	ctx := t.Context() // ends before the cleanups run
	handler := asynq.HandlerFunc(func(_ context.Context, task *asynq.Task) error {
		push, err := DecodePush("", task.Payload())
		if err != nil {
			return endedText(FailedPrefix + err.Error())
		}
		switch text := push.Message; {
		case text == "":
			return nil
		case text == "hold":
			<-ctx.Done()
			return nil
		case len(text) > 5 && (text[:5] == "faile" || text[:5] == "given"):
			return endedText(text)
		default:
			return retryText(text)
		}
	})
	queues := map[string]int{}
	for _, channel := range Channels() {
		for _, queue := range channel.Queues() {
			queues[queue] = 1
		}
	}
	worker := asynq.NewServerFromRedisClient(server.Client(t), asynq.Config{
		Queues:                   queues,
		Concurrency:              20,
		TaskCheckInterval:        time.Millisecond,
		DelayedTaskCheckInterval: 50 * time.Millisecond,
		LogLevel:                 asynq.FatalLevel,
		RetryDelayFunc: func(_ int, _ error, task *asynq.Task) time.Duration {
			push, _ := DecodePush("", task.Payload())
			minutes, _ := strconv.Atoi(push.PushKey)
			return time.Until(start.Add(time.Duration(minutes) * time.Minute))
		},
	})
	require.NoError(t, worker.Start(handler))
	t.Cleanup(worker.Shutdown)
}

// pushSaying returns an immediate push whose run ends with the text.
func pushSaying(text string) Push {
	push := newPush()
	push.Message, push.PushKey = text, "60"
	return push
}
