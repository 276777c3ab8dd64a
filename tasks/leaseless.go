package tasks

import (
	"context"
	_ "embed" // the scripts
	"errors"
	"fmt"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"pushq/internal/keytype"
)

var (
	//go:embed scripts/leaseless.lua
	leaselessSource string
	//go:embed scripts/leaseless_requeue.lua
	leaselessRequeueSource string

	leaselessScript        = redis.NewScript(leaselessSource)
	leaselessRequeueScript = redis.NewScript(keytype.Source + leaselessRequeueSource)
)

// leaseless returns the active tasks of a queue that have no lease, up to a
// page more than are judged: asynq never takes those back.
func (d *Doctor) leaseless(ctx context.Context, queue string) (suspects []suspect, err error) {
	keys := []string{asynqStateKey(queue, asynq.TaskStateActive), asynqLeaseKey(queue)}
	for first := 0; len(suspects) <= maxSuspects; first += doctorPage {
		reply, err := leaselessScript.Run(ctx, d.redis, keys, first, first+doctorPage-1).Slice()
		if err != nil {
			return nil, fmt.Errorf("look for active tasks without a lease in queue %s: %w: %w", queue, ErrUnreadable, err)
		}
		for _, member := range reply[1:] {
			id, _ := member.(string)
			suspects = append(suspects, suspect{id: id})
		}
		if length, _ := reply[0].(int64); length < doctorPage {
			break
		}
	}
	return suspects, nil
}

// leaselessCheck requeues a task only if no worker says that it has it and its
// record shows no attempt that may still be under way. A worker that has it all
// the same cannot send it a second time: both runs meet in Begin, which lets
// one of them send.
func (d *Doctor) leaselessCheck(queue string) check {
	var inHand map[string]bool // listed once, by the first judgement that needs it
	return check{
		finding: Finding{
			Fault: "leaseless-active", Queue: queue,
			Meaning: "a worker took these pushes, its lease on them is gone, and nobody will take them back: they stay IN_MEMORY for ever",
			Repair:  fixCommand + " (those that a worker still has in hand are left: run it again in a minute)",
		},
		look: func(ctx context.Context) ([]suspect, error) { return d.leaseless(ctx, queue) },
		judge: func(ctx context.Context, one suspect, fix bool) (verdict, error) {
			if fix && inHand == nil {
				var err error
				if inHand, err = d.inHand(); err != nil {
					return well, err
				}
			}
			var unknown error
			if fix {
				var attempted bool
				attempted, unknown = d.attempted(ctx, one.id)
				fix = unknown == nil && !attempted && !inHand[one.id]
			}
			found, err := asVerdict(leaselessRequeueScript.Run(ctx, d.redis, []string{
				asynqStateKey(queue, asynq.TaskStateActive), asynqLeaseKey(queue),
				asynqTaskKey(queue, one.id), asynqStateKey(queue, asynq.TaskStatePending),
			}, one.id, mode(fix)), "requeue task "+one.id)
			return found, errors.Join(unknown, err)
		},
	}
}

// attempted reports whether an attempt of the push may be under way.
func (d *Doctor) attempted(ctx context.Context, id string) (bool, error) {
	record, err := d.records.Get(ctx, id)
	if err != nil || record == nil || len(record.Attempts) == 0 {
		return false, err
	}
	now, err := d.redis.Time(ctx).Result()
	if err != nil {
		return false, fmt.Errorf("read the time of redis: %w: %w", ErrUnreadable, err)
	}
	last := record.Attempts[len(record.Attempts)-1]
	return last.Status == AttemptInProcess && now.Sub(last.StartedAt.Time()) < d.Interrupted, nil
}

// inHand returns the ids of the tasks that workers say they have.
func (d *Doctor) inHand() (map[string]bool, error) {
	servers, err := d.inspector.Servers()
	if err != nil {
		return nil, fmt.Errorf("list the workers: %w: %w", ErrUnreadable, err)
	}
	ids := make(map[string]bool)
	for _, server := range servers {
		for _, worker := range server.ActiveWorkers {
			ids[worker.TaskID] = true
		}
	}
	return ids, nil
}
