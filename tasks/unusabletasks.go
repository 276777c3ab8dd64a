package tasks

import (
	"context"
	_ "embed" // the script
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"pushq/internal/keytype"
)

var (
	//go:embed scripts/set_aside.lua
	setAsideSource string

	setAsideScript = redis.NewScript(keytype.Source + setAsideSource)
)

// setAsideLooks is how many due ids are looked at: the first that asynq has not forwarded
// is the one that it breaks off at.
const setAsideLooks = 100

// setAside lets no task whose key is of another type hold up those that are due after it.
func (c *Caretaker) setAside(ctx context.Context, queue string) error {
	for _, place := range []asynq.TaskState{asynq.TaskStateScheduled, asynq.TaskStateRetry} {
		ids, err := setAsideScript.Run(ctx, c.redis,
			[]string{asynqStateKey(queue, place), asynqStateKey(queue, asynq.TaskStateActive)},
			asynqTaskKey(queue, ""), setAsideLooks).StringSlice()
		if err != nil {
			return fmt.Errorf("look for due tasks of queue %s that nobody can forward: %w", queue, err)
		}
		for _, id := range ids {
			c.log.Warn("a push cannot be sent: its key in redis is of another type; pushq doctor says what to do", slog.String("key", asynqTaskKey(queue, id)))
		}
	}
	return nil
}

// unusableTaskCheck finds keys of tasks that are of another type. Only somebody who knows
// what has written them can say whether they may be deleted.
func (d *Doctor) unusableTaskCheck(queue string) check {
	prefix := asynqTaskKey(queue, "")
	return check{
		finding: Finding{
			Fault: "unusable-task", Queue: queue,
			Meaning: "keys " + prefix + "ID that are of another type than a task: something else than pushq and asynq has written to them. " +
				"Those pushes cannot be sent, and asynq's tools fail on lists that have them",
			Repair: "redis-cli DEL '" + prefix + "ID' for each, and then " + fixCommand + ", which sends the push again if there is a record of it",
		},
		look: func(ctx context.Context) (suspects []suspect, err error) {
			err = d.scan(ctx, prefix, func(keys []string) error {
				pipe := d.redis.Pipeline()
				for _, key := range keys {
					pipe.HExists(ctx, key, "msg")
				}
				replies, err := execForEach(ctx, pipe)
				if err != nil {
					return fmt.Errorf("read tasks of queue %s: %w: %w", queue, ErrUnreadable, err)
				}
				for place, key := range keys {
					if isWrongType(replies[place].Err()) {
						suspects = append(suspects, suspect{id: strings.TrimPrefix(key, prefix)})
					}
				}
				return nil
			})
			return suspects, err
		},
		judge: func(ctx context.Context, one suspect, _ bool) (verdict, error) {
			err := d.redis.HExists(ctx, prefix+one.id, "msg").Err()
			switch {
			case isWrongType(err):
				return wrong, nil
			case err != nil:
				return well, fmt.Errorf("read task %s: %w: %w", one.id, ErrUnreadable, err)
			default:
				return well, nil
			}
		},
	}
}

// execForEach runs commands each of which is about another key. That one key has no value,
// or is of another type, is no error of the whole.
func execForEach(ctx context.Context, pipe redis.Pipeliner) ([]redis.Cmder, error) {
	replies, _ := pipe.Exec(ctx) // the first error may be one of those
	for _, reply := range replies {
		if err := reply.Err(); err != nil && !errors.Is(err, redis.Nil) && !isWrongType(err) {
			return replies, err
		}
	}
	return replies, nil
}
