package redisconn

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"
)

// IsFault reports whether an error is none of those that asynq's commands have
// in the normal course of things.
func IsFault(err error) bool {
	return err != nil && !errors.Is(err, redis.Nil) && !redis.HasErrorPrefix(err, "NOSCRIPT") && !redis.HasErrorPrefix(err, "NOT FOUND")
}

// CountErrors calls count for every command of the client that fails: asynq's
// servers only log errors of Redis, and repeat what failed.
func CountErrors(client redis.UniversalClient, count func()) {
	client.AddHook(errorCount{count})
}

type errorCount struct {
	count func()
}

func (errorCount) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h errorCount) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if IsFault(err) {
			h.count()
		}
		return err
	}
}

func (h errorCount) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		err := next(ctx, commands)
		if IsFault(err) {
			h.count()
		}
		return err
	}
}
