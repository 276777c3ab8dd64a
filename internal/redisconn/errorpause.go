package redisconn

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// errorPause slows asynq's pollers down while Redis answers with errors: asynq
// repeats a failed dequeue at once (processor.go: exec), thousands of times a
// second while Redis is out of memory.
type errorPause struct{}

// IsFault reports whether an error is none of those that asynq's commands have
// in the normal course of things.
func IsFault(err error) bool {
	return err != nil && !errors.Is(err, redis.Nil) && !redis.HasErrorPrefix(err, "NOSCRIPT") && !redis.HasErrorPrefix(err, "NOT FOUND")
}

const pauseAfterError = 100 * time.Millisecond

func (errorPause) DialHook(next redis.DialHook) redis.DialHook { return next }

func (errorPause) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if IsFault(err) {
			pause := time.NewTimer(pauseAfterError)
			defer pause.Stop()
			select {
			case <-pause.C:
			case <-ctx.Done():
			}
		}
		return err
	}
}

func (errorPause) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
