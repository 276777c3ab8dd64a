package tasks

import (
	"context"
	_ "embed" // the script
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"pushq/internal/keytype"
)

var (
	//go:embed scripts/misplaced.lua
	misplacedSource string

	misplacedScript = redis.NewScript(keytype.Source + misplacedSource)
)

// misplacedCheck finds tasks that are not where they say. Its fix loses none:
// it changes the state that asynq's tools go by, or puts the task where a
// worker or the caretaker finds it. Nor does it send one twice: Begin knows from
// the record what has been sent, and the handler looks at the window again.
func (d *Doctor) misplacedCheck(queue string) check {
	return check{
		finding: Finding{
			Fault: "misplaced-task", Queue: queue,
			Meaning: "tasks that are not in the list or set that their state names: asynq's tools refuse them, and those that are nowhere are never run " +
				"(left by a bulk archive of more than 9,999, or by a worker that lost its lease)",
			Repair: fixCommand,
		},
		look: func(ctx context.Context) ([]suspect, error) { return d.findMisplaced(ctx, queue) },
		judge: func(ctx context.Context, one suspect, fix bool) (verdict, error) {
			keys := []string{asynqTaskKey(queue, one.id)}
			for _, place := range taskPlaces {
				keys = append(keys, asynqStateKey(queue, place))
			}
			return asVerdict(misplacedScript.Run(ctx, d.redis, keys, one.id, mode(fix)), "put task "+one.id+" right")
		},
	}
}

func (d *Doctor) findMisplaced(ctx context.Context, queue string) (suspects []suspect, err error) {
	// To look one id up in the pending list costs its length: all of them are
	// remembered instead, about 100 bytes each.
	pending := make(map[string]struct{})
	if err := d.eachPage(ctx, queue, asynq.TaskStatePending, func(ids []string) error {
		for _, id := range ids {
			pending[id] = struct{}{}
		}
		return nil
	}); err != nil {
		return nil, err
	}
	prefix := asynqTaskKey(queue, "")
	err = d.scan(ctx, prefix, func(keys []string) error {
		pipe := d.redis.Pipeline()
		states := make([]*redis.StringCmd, len(keys))
		for place, key := range keys {
			states[place] = pipe.HGet(ctx, key, "state")
		}
		if _, err := execForEach(ctx, pipe); err != nil {
			return fmt.Errorf("read tasks of queue %s: %w: %w", queue, ErrUnreadable, err)
		}
		pipe = d.redis.Pipeline()
		lookups := make(map[string]redis.Cmder)
		for place, key := range keys {
			id, state := strings.TrimPrefix(key, prefix), states[place].Val()
			named := slices.IndexFunc(taskPlaces, func(place asynq.TaskState) bool { return place.String() == state })
			if named < 0 {
				continue // gone since, or of another type; pushq has no groups
			}
			switch home := taskPlaces[named]; home {
			case asynq.TaskStatePending:
				if _, found := pending[id]; !found {
					suspects = append(suspects, suspect{id: id})
				}
			case asynq.TaskStateActive:
				lookups[id] = pipe.LPos(ctx, asynqStateKey(queue, home), id, redis.LPosArgs{})
			default:
				lookups[id] = pipe.ZScore(ctx, asynqStateKey(queue, home), id)
			}
		}
		if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
			return fmt.Errorf("find tasks of queue %s: %w: %w", queue, ErrUnreadable, err)
		}
		for id, lookup := range lookups {
			if errors.Is(lookup.Err(), redis.Nil) {
				suspects = append(suspects, suspect{id: id})
			}
		}
		return nil
	})
	return suspects, err
}
