package tasks

import (
	"context"
	_ "embed" // the scripts
	"fmt"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

var (
	//go:embed scripts/leaseless.lua
	leaselessSource string
	//go:embed scripts/leaseless_requeue.lua
	leaselessRequeueSource string

	leaselessScript        = redis.NewScript(leaselessSource)
	leaselessRequeueScript = redis.NewScript(leaselessRequeueSource)
)

// CountLeaseless returns how many active tasks of the channel have no lease:
// asynq never takes those back. It costs a call for every 500 pushes that the
// workers have in hand, and counts no further than 10,000 a queue.
func CountLeaseless(ctx context.Context, client redis.UniversalClient, channel Channel) (int, error) {
	count := 0
	for _, queue := range channel.Queues() {
		ids, err := leaseless(ctx, client, queue)
		if err != nil {
			return 0, err
		}
		count += len(ids)
	}
	return count, nil
}

func leaseless(ctx context.Context, client redis.UniversalClient, queue string) (ids []string, err error) {
	keys := []string{asynqStateKey(queue, asynq.TaskStateActive), asynqLeaseKey(queue)}
	for first := 0; first < maxSuspects; first += doctorPage {
		reply, err := leaselessScript.Run(ctx, client, keys, first, first+doctorPage-1).Slice()
		if err != nil {
			return nil, fmt.Errorf("look for active tasks without a lease in queue %s: %w: %w", queue, ErrUnreadable, err)
		}
		for _, member := range reply[1:] {
			id, _ := member.(string)
			ids = append(ids, id)
		}
		if length, _ := reply[0].(int64); length < doctorPage {
			break
		}
	}
	return ids, nil
}

// leaselessCheck requeues a task only if no worker says that it has it and its
// record shows no attempt that may still be under way. A worker that has it all
// the same cannot send it a second time: both runs meet in Begin, which lets
// one of them send.
func (d *Doctor) leaselessCheck(queue string) check {
	return check{
		finding: Finding{
			Fault: "leaseless-active", Queue: queue,
			Meaning: "a worker took these pushes, its lease on them is gone, and nobody will take them back: they stay IN_MEMORY for ever",
			Repair:  fixCommand + " (those that a worker still has in hand are left: run it again in a minute)",
		},
		look: func(ctx context.Context) (suspects []suspect, err error) {
			ids, err := leaseless(ctx, d.redis, queue)
			for _, id := range ids {
				suspects = append(suspects, suspect{id: id})
			}
			return suspects, err
		},
		judge: func(ctx context.Context, one suspect, fix bool) (verdict, error) {
			if fix {
				held, err := d.held(ctx, one.id)
				if err != nil {
					return well, err
				}
				fix = !held
			}
			return asVerdict(leaselessRequeueScript.Run(ctx, d.redis, []string{
				asynqStateKey(queue, asynq.TaskStateActive), asynqLeaseKey(queue),
				asynqTaskKey(queue, one.id), asynqStateKey(queue, asynq.TaskStatePending),
			}, one.id, mode(fix)), "requeue task "+one.id)
		},
	}
}

// held reports whether a worker may have the push in hand.
func (d *Doctor) held(ctx context.Context, id string) (bool, error) {
	record, err := d.records.Get(ctx, id)
	if err != nil {
		return false, err
	}
	if record != nil && len(record.Attempts) > 0 {
		last := record.Attempts[len(record.Attempts)-1]
		now, err := d.redis.Time(ctx).Result()
		if err != nil {
			return false, fmt.Errorf("read the time of redis: %w", err)
		}
		if last.Status == AttemptInProcess && now.Sub(last.StartedAt.Time()) < d.Interrupted {
			return true, nil
		}
	}
	servers, err := d.inspector.Servers()
	if err != nil {
		return false, fmt.Errorf("list the workers: %w", err)
	}
	for _, server := range servers {
		for _, worker := range server.ActiveWorkers {
			if worker.TaskID == id {
				return true, nil
			}
		}
	}
	return false, nil
}
