package tasks

import (
	"context"
	_ "embed" // the script
	"errors"
	"fmt"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"pushq/internal/keytype"
)

var (
	//go:embed scripts/ghost.lua
	ghostSource string

	ghostScript = redis.NewScript(keytype.Source + ghostSource)
)

// ghostCheck removes ids whose task has no content: nothing could be sent from
// them. A push that was under way and has a record is stored again from it, and
// Begin, which goes by the same record, sends it only if it has not been sent.
func (d *Doctor) ghostCheck(queue string, place asynq.TaskState) check {
	key := asynqStateKey(queue, place)
	return check{
		finding: Finding{
			Fault: "ghost", Queue: queue,
			Meaning: "ids in " + key + " whose task is gone (deleted by hand, or evicted): each delays the queue when it is taken. " +
				"The fix sends those again that have a record and no end; nothing is left of the others",
			Repair: fixCommand,
		},
		look: func(ctx context.Context) (suspects []suspect, err error) {
			err = d.eachPage(ctx, queue, place, func(ids []string) error {
				found, err := d.without(ctx, queue, ids)
				suspects = append(suspects, found...)
				return err
			})
			return suspects, err
		},
		judge: func(ctx context.Context, one suspect, fix bool) (verdict, error) {
			kind := "zset"
			if isList(place) {
				kind = "list"
			}
			found, err := asVerdict(ghostScript.Run(ctx, d.redis, []string{key, asynqTaskKey(queue, one.id), asynqLeaseKey(queue)},
				one.id, kind, mode(fix)), "remove ghost "+one.id)
			if err != nil || found != mended || place == asynq.TaskStateArchived || place == asynq.TaskStateCompleted {
				return found, err
			}
			// If this fails, the record without an end shows CANCELLED, and the
			// push can be retried.
			return mended, d.storeAgain(ctx, one.id)
		},
	}
}

// without returns the ids whose task has no content.
func (d *Doctor) without(ctx context.Context, queue string, ids []string) (suspects []suspect, err error) {
	pipe := d.redis.Pipeline()
	exist := make([]*redis.BoolCmd, len(ids))
	for place, id := range ids {
		exist[place] = pipe.HExists(ctx, asynqTaskKey(queue, id), "msg")
	}
	if _, err := execForEach(ctx, pipe); err != nil {
		return nil, fmt.Errorf("read tasks of queue %s: %w: %w", queue, ErrUnreadable, err)
	}
	for place, id := range ids {
		if exist[place].Err() == nil && !exist[place].Val() { // else see unusabletasks.go
			suspects = append(suspects, suspect{id: id})
		}
	}
	return suspects, nil
}

// storeAgain makes a new task of a push that is under way, as its record says.
func (d *Doctor) storeAgain(ctx context.Context, id string) error {
	record, err := d.records.Get(ctx, id)
	if err != nil || record == nil || record.End != "" || record.delivered() {
		return err
	}
	task, err := newTask(d.channel, record.Push, d.retention)
	if err != nil {
		return err
	}
	if _, err := d.asynq.EnqueueContext(ctx, task); err != nil && !errors.Is(err, asynq.ErrTaskIDConflict) {
		return fmt.Errorf("store push %s again: %w", id, err)
	}
	return nil
}
