package tasks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"
)

// MaxPage is the largest page that List returns.
const MaxPage = 200

const (
	// listLookups is how many pushes of a page are looked up at once.
	listLookups = 16
	// listReads bounds how often one call reads on while all it has found is
	// in other states.
	listReads = 5
)

// A Page is one page of pushes in a state.
type Page struct {
	Reports []Report
	// Next continues the listing; "" at its end.
	Next string
}

// List returns up to limit pushes in the given state, from cursor on (""
// starts). SCHEDULED and RETRY are ordered by the next attempt, PENDING and
// IN_MEMORY as in the queue, the ended ones newest first; SENT shows what asynq
// still holds. A page may be short, or miss or repeat a push that moves
// meanwhile. ErrCursor if the cursor is not one of this channel's and state's.
func (r *Reader) List(ctx context.Context, state State, limit int, cursor string) (Page, error) {
	sources := r.sources(state)
	positions, err := decodeCursor(cursor, r.channel, state, len(sources))
	if err != nil {
		return Page{}, err
	}

	page, more := Page{}, true
	for range listReads {
		var reports []Report
		if reports, more, err = r.listOnce(ctx, state, sources, positions, limit); err != nil {
			return Page{}, fmt.Errorf("list pushes in state %s: %w", state, err)
		}
		page.Reports = reports
		if len(reports) > 0 || !more {
			break
		}
	}
	if more {
		page.Next = encodeCursor(r.channel, state, positions)
	}
	return page, nil
}

// listOnce reads up to limit entries, moves the positions behind them, and
// reports on those that are in the given state.
func (r *Reader) listOnce(ctx context.Context, state State, sources []source, positions []position, limit int) (reports []Report, more bool, err error) {
	found := make([][]entry, len(sources))
	reads, readContext := errgroup.WithContext(ctx)
	for place, source := range sources {
		reads.Go(func() (err error) {
			found[place], err = source.read(readContext, r.redis, positions[place], limit)
			return err
		})
	}
	if err := reads.Wait(); err != nil {
		return nil, false, err
	}
	chosen, more := take(sources, found, positions, limit)
	reports, err = r.reports(ctx, state, chosen)
	return reports, more, err
}

// A source is one list or sorted set of ids in Redis that may hold pushes of a
// state.
type source struct {
	key   string
	order order
	// millisPerScore is how many milliseconds one unit of a score is.
	millisPerScore float64
	// unended leaves out the pushes whose record has an end: the index of dead
	// pushes, which is another source of the listing, has them.
	unended bool
}

type order int

const (
	queueOrder  order = iota // a list whose oldest entry is its last
	oldestFirst              // a sorted set by rising score
	newestFirst              // a sorted set by falling score
)

// sources of a state, in the order in which a listing goes through those that
// have no times to compare.
func (r *Reader) sources(state State) []source {
	const seconds, millis = 1000, 1
	sets := func(asynqState asynq.TaskState, order order) []source {
		var result []source
		for _, queue := range r.channel.Queues() {
			result = append(result, source{key: asynqStateKey(queue, asynqState), order: order, millisPerScore: seconds})
		}
		return result
	}
	dead := source{key: r.channel.DeadKey(), order: newestFirst, millisPerScore: millis}
	switch state {
	case Scheduled:
		return append(sets(asynq.TaskStateScheduled, oldestFirst), sets(asynq.TaskStateRetry, oldestFirst)...)
	case Retry:
		return sets(asynq.TaskStateRetry, oldestFirst)
	case Pending: // the queue first, then what was deferred
		return append(sets(asynq.TaskStatePending, queueOrder), sets(asynq.TaskStateRetry, oldestFirst)...)
	case InMemory:
		return sets(asynq.TaskStateActive, queueOrder)
	case Sent:
		return sets(asynq.TaskStateCompleted, newestFirst)
	case Cancelled: // the archive has those that an operator stopped with asynq's tools
		archived := sets(asynq.TaskStateArchived, newestFirst)
		for place := range archived {
			archived[place].unended = true
		}
		return append(archived, dead)
	default:
		return []source{dead}
	}
}

// An entry is one id of a source and its time in milliseconds.
type entry struct {
	id      string
	time    float64
	unended bool // as its source
}

// read returns up to limit entries from a position on.
func (s source) read(ctx context.Context, client redis.UniversalClient, from position, limit int) ([]entry, error) {
	count := int64(limit)
	if s.order == queueOrder {
		ids, err := client.LRange(ctx, s.key, -from.Skip-count, -from.Skip-1).Result()
		if err != nil {
			return nil, fmt.Errorf("read %s: %w: %w", s.key, ErrUnreadable, err)
		}
		slices.Reverse(ids)
		entries := make([]entry, len(ids))
		for place, id := range ids {
			entries[place] = entry{id: id}
		}
		return entries, nil
	}
	within := &redis.ZRangeBy{Min: "-inf", Max: "+inf", Offset: from.Skip, Count: count}
	inOrder := client.ZRangeByScoreWithScores
	if s.order == newestFirst {
		inOrder = client.ZRevRangeByScoreWithScores
	}
	if from.Score != nil {
		bound := strconv.FormatFloat(*from.Score, 'f', -1, 64)
		if s.order == newestFirst {
			within.Max = bound
		} else {
			within.Min = bound
		}
	}
	members, err := inOrder(ctx, s.key, within).Result()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w: %w", s.key, ErrUnreadable, err)
	}
	entries := make([]entry, len(members))
	for place, member := range members {
		id, _ := member.Member.(string)
		entries[place] = entry{id: id, time: member.Score * s.millisPerScore, unended: s.unended}
	}
	return entries, nil
}

// after returns the position behind entries read from a position.
func (s source) after(from position, entries []entry) position {
	if len(entries) == 0 {
		return from
	}
	if s.order == queueOrder {
		return position{Skip: from.Skip + int64(len(entries))}
	}
	score := entries[len(entries)-1].time / s.millisPerScore
	same := int64(0)
	for _, entry := range entries {
		if entry.time/s.millisPerScore == score {
			same++
		}
	}
	if from.Score != nil && *from.Score == score {
		same += from.Skip
	}
	return position{Score: &score, Skip: same}
}

// take merges the first limit entries of all sources by their order, moves the
// positions behind them, and reports whether any source may hold more.
func take(sources []source, found [][]entry, positions []position, limit int) (chosen []entry, more bool) {
	taken := make([]int, len(sources))
	for len(chosen) < limit {
		best := -1
		for place := range sources {
			if taken[place] == len(found[place]) {
				continue
			}
			if best < 0 || comesFirst(sources[place], found[place][taken[place]], sources[best], found[best][taken[best]]) {
				best = place
			}
		}
		if best < 0 {
			break
		}
		chosen = append(chosen, found[best][taken[best]])
		taken[best]++
	}
	for place, source := range sources {
		positions[place] = source.after(positions[place], found[place][:taken[place]])
		more = more || taken[place] < len(found[place]) || len(found[place]) == limit
	}
	return chosen, more
}

// comesFirst compares entries of two sources, the second of which stands
// earlier in the list of sources.
func comesFirst(s source, e entry, earlier source, other entry) bool {
	switch {
	case s.order != earlier.order || s.order == queueOrder:
		return false
	case s.order == newestFirst:
		return e.time > other.time
	default:
		return e.time < other.time
	}
}

// reports looks the chosen pushes up and keeps those in the given state.
func (r *Reader) reports(ctx context.Context, state State, chosen []entry) ([]Report, error) {
	found := make([]Report, len(chosen))
	lookups, ctx := errgroup.WithContext(ctx)
	lookups.SetLimit(listLookups)
	for place, entry := range chosen {
		lookups.Go(func() error {
			report, err := r.Get(ctx, entry.id)
			if errors.Is(err, ErrNotFound) || errors.Is(err, ErrUnusableKey) {
				return nil // gone meanwhile, or not to cost us the others
			}
			if err == nil && !(entry.unended && report.ended) {
				found[place] = report
			}
			return err
		})
	}
	if err := lookups.Wait(); err != nil {
		return nil, err
	}
	kept := make([]Report, 0, len(found))
	seen := make(map[string]bool, len(found))
	for _, report := range found {
		if report.State == state && !seen[report.Push.ID] {
			seen[report.Push.ID] = true // it may have moved from one source to another between the reads
			kept = append(kept, report)
		}
	}
	return kept, nil
}
