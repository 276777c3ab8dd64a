package tasks

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"
)

// countSample is how many pushes are looked at of a set that holds several states.
const countSample = 500

// A Count is how many pushes of a channel are in a state.
type Count struct {
	State State
	Count int64
	// Exact is false if it has been estimated from a random sample.
	Exact bool
}

// Count counts the pushes in every state without going through them. What waits for its
// time or for a worker, what a worker has in hand, and what asynq still holds of SENT is
// counted by Redis. What is deferred or tried again stands in one set, and what has ended
// badly in another: of up to 500 in each the count is exact, beyond that it is estimated
// from so many chosen at random.
func (r *Reader) Count(ctx context.Context) ([]Count, error) {
	sets := r.countedSets()
	found := make([]map[State]int64, len(sets))
	exact := make([]bool, len(sets))
	reads, ctx := errgroup.WithContext(ctx)
	for place, set := range sets {
		reads.Go(func() (err error) {
			found[place], exact[place], err = r.countSet(ctx, set)
			return err
		})
	}
	if err := reads.Wait(); err != nil {
		return nil, fmt.Errorf("count pushes: %w", err)
	}
	counts := make([]Count, 0, len(States()))
	for _, state := range States() {
		count := Count{State: state, Exact: true}
		for place, set := range sets {
			if slices.Contains(set.states, state) {
				count.Count += found[place][state]
				count.Exact = count.Exact && exact[place]
			}
		}
		counts = append(counts, count)
	}
	return counts, nil
}

// A countedSet is a place in Redis, and the states of the pushes in it that are counted
// there. All that is in a place of one state is in that state.
type countedSet struct {
	source source
	states []State
}

func (r *Reader) countedSets() []countedSet {
	var all []countedSet
	for _, queue := range r.channel.Queues() {
		for _, place := range []struct {
			asynqState asynq.TaskState
			order      order
			unended    bool
			states     []State
		}{
			{asynq.TaskStateScheduled, oldestFirst, false, []State{Scheduled}},
			{asynq.TaskStatePending, queueOrder, false, []State{Pending}},
			{asynq.TaskStateActive, queueOrder, false, []State{InMemory}},
			{asynq.TaskStateCompleted, newestFirst, false, []State{Sent}},
			{asynq.TaskStateRetry, oldestFirst, false, []State{Scheduled, Pending, Retry}},
			{asynq.TaskStateArchived, newestFirst, true, []State{Cancelled}}, // as in a listing of CANCELLED
		} {
			all = append(all, countedSet{
				source: source{key: asynqStateKey(queue, place.asynqState), order: place.order, unended: place.unended},
				states: place.states,
			})
		}
	}
	return append(all, countedSet{
		source: source{key: r.channel.DeadKey(), order: newestFirst}, states: []State{Failed, GivenUp, Cancelled},
	})
}

func (r *Reader) countSet(ctx context.Context, set countedSet) (found map[State]int64, exact bool, err error) {
	size, err := set.source.size(ctx, r.redis)
	if err != nil {
		return nil, false, err
	}
	if len(set.states) == 1 && !set.source.unended {
		return map[State]int64{set.states[0]: size}, true, nil
	}
	ids, err := set.source.sample(ctx, r.redis, size)
	if err != nil {
		return nil, false, err
	}
	if found, err = r.tally(ctx, set.source, ids); err != nil {
		return nil, false, err
	}
	if exact = size <= countSample; !exact {
		for state, count := range found {
			found[state] = int64(math.Round(float64(count) * float64(size) / countSample))
		}
	}
	return found, exact, nil
}

// tally looks pushes up and counts their states.
func (r *Reader) tally(ctx context.Context, source source, ids []string) (map[State]int64, error) {
	states := make([]State, len(ids))
	lookups, ctx := errgroup.WithContext(ctx)
	lookups.SetLimit(listLookups)
	for place, id := range ids {
		lookups.Go(func() error {
			report, err := r.Get(ctx, id)
			switch {
			case errors.Is(err, ErrNotFound), errors.Is(err, ErrUnusableKey):
				return nil // gone meanwhile, or not ours
			case err != nil:
				return err
			case !(source.unended && report.ended):
				states[place] = report.State
			}
			return nil
		})
	}
	err := lookups.Wait()
	found := make(map[State]int64)
	for _, state := range states {
		if state != "" {
			found[state]++
		}
	}
	return found, err
}

func (s source) size(ctx context.Context, client redis.UniversalClient) (int64, error) {
	count := client.ZCard
	if s.order == queueOrder {
		count = client.LLen
	}
	size, err := count(ctx, s.key).Result()
	if err != nil {
		return 0, fmt.Errorf("read the size of %s: %w: %w", s.key, ErrUnreadable, err)
	}
	return size, nil
}

// sample chooses members of a sorted set of that size at random, or takes all if they are
// few.
func (s source) sample(ctx context.Context, client redis.UniversalClient, size int64) (ids []string, err error) {
	if size <= countSample {
		ids, err = client.ZRange(ctx, s.key, 0, -1).Result()
	} else {
		ids, err = s.sampleRanks(ctx, client, size)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w: %w", s.key, ErrUnreadable, err)
	}
	return ids, nil
}

func (s source) sampleRanks(ctx context.Context, client redis.UniversalClient, size int64) ([]string, error) {
	pipe := client.Pipeline()
	members := make(map[int64]*redis.StringSliceCmd, countSample)
	for len(members) < countSample {
		if rank := rand.Int64N(size); members[rank] == nil {
			members[rank] = pipe.ZRange(ctx, s.key, rank, rank)
		}
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, err
	}
	ids := make([]string, 0, countSample)
	for _, member := range members {
		ids = append(ids, member.Val()...)
	}
	return ids, nil
}
