package tasks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hibiken/asynq"
	"golang.org/x/sync/errgroup"
)

// MaxBulk is how many pushes one call of RetryAll or CancelAll acts on at most.
const MaxBulk = 1000

// What bounds one call besides: with a filter that few pushes match it would
// otherwise examine all of them.
const (
	bulkExamined = 10_000
	bulkTime     = 2 * time.Second
	// bulkChunk is how many pushes are read at once, bulkActions how many of
	// them are looked up and acted on at a time.
	bulkChunk   = 100
	bulkActions = 16
)

// A Filter chooses pushes for RetryAll and CancelAll. Zero values choose all.
type Filter struct {
	State State
	// Since leaves out what is older: the end of a push that has ended, the
	// acceptance of one that waits.
	Since Millis
	// ErrorType and ErrorCode are those of the last attempt.
	ErrorType           ErrorType
	ErrorCode           int
	MessagePrototypeKey string
	// DryRun only counts what would be done. What only the attempt shows, such as an
	// idempotency key that stands for another push by now, is not known then.
	DryRun bool
}

// A Bulk is what one call of RetryAll or CancelAll has done.
type Bulk struct {
	// Matched pushes were in the state and chosen by the filter, or could not be
	// read to tell. Done of them were acted on, or would be. The others may not be sent now
	// (Closed), have changed their state meanwhile or left their idempotency key to
	// another push (Moved), or could not be read or acted on although Redis answers
	// (Failed).
	Matched, Done, Closed, Moved, Failed int
	// Fault is the first of the faults.
	Fault error
	// Next continues; "" at the end.
	Next string
}

// RetryAll does what Retry does to up to limit pushes (at most MaxBulk), from
// cursor on ("" starts). It comes to an end, and to each push once, although
// pushes move while it works: it goes only forward, up to where the last push
// was at the first call, and leaves out what was accepted or tried since.
//
// The error is ErrCursor, or ErrUnreadable, ErrNotStored or ErrIncomplete if Redis fails. The
// Bulk then counts what had been done before, without the pushes at which Redis
// failed and without a Next; the call may be repeated.
func (o *Operator) RetryAll(ctx context.Context, filter Filter, limit int, cursor string) (Bulk, error) {
	act := o.retry
	if filter.DryRun {
		act = o.mayRetry
	}
	return o.bulk(ctx, bulkAction{"retry", o.channel, filter, act}, limit, cursor)
}

// CancelAll does what Cancel does to many pushes, in the way of RetryAll. They
// leave asynq's archive at once, which holds too few for them and would lose
// the newest failures.
func (o *Operator) CancelAll(ctx context.Context, filter Filter, limit int, cursor string) (Bulk, error) {
	act := o.cancelAndTake
	if filter.DryRun {
		act = o.mayCancel
	}
	return o.bulk(ctx, bulkAction{"cancel", o.channel, filter, act}, limit, cursor)
}

func (o *Operator) cancelAndTake(ctx context.Context, found Report, task *asynq.TaskInfo, record *Record) error {
	if err := o.cancel(ctx, found, task, record); err != nil {
		return err
	}
	if _, err := takeFromArchive(ctx, o.redis, task.Queue, found.Push.ID); err != nil {
		return fmt.Errorf("%w: %w", ErrIncomplete, err)
	}
	return nil
}

// A bulkAction is what is done to the pushes that a filter chooses.
type bulkAction struct {
	name    string
	channel Channel
	filter  Filter
	act     action
}

func (o *Operator) bulk(ctx context.Context, action bulkAction, limit int, cursor string) (Bulk, error) {
	if err := o.begin(); err != nil {
		return Bulk{}, err
	}
	defer o.calls.end()
	sources := o.reader.sources(action.filter.State)
	at, err := decodeBulkCursor(cursor, action, len(sources))
	if err != nil {
		return Bulk{}, err
	}
	if cursor == "" {
		if at, err = o.startBulk(ctx, action, sources); err != nil {
			return Bulk{}, err
		}
	}
	var sum Bulk
	examined, started := 0, time.Now()
	for at.Source < len(sources) {
		size := min(bulkChunk, limit-sum.Matched)
		if size == 0 || examined >= bulkExamined || time.Since(started) > bulkTime {
			sum.Next = at.encode()
			return sum, nil
		}
		entries, err := sources[at.Source].behind(ctx, o.redis, at, size)
		if err != nil {
			return sum, err
		}
		done, err := o.actOn(ctx, action, at.Until, entries, &sum)
		if err != nil {
			return sum, err
		}
		examined += len(entries)
		if action.filter.DryRun {
			clear(done) // what would be done has not left its list
		}
		at.move(sources[at.Source], entries, done)
		if len(entries) < size {
			at.nextSource(sources, action.filter)
		}
	}
	return sum, nil
}

// What became of one entry. A push that was not chosen is neither matched nor
// has it an error.
type bulkOutcome struct {
	matched bool
	err     error
}

// actOn looks the entries up, acts on those that the action's filter chooses,
// and returns which were done. An error means that Redis fails; a fault of one
// push alone is counted.
func (o *Operator) actOn(ctx context.Context, action bulkAction, until Millis, entries []entry, sum *Bulk) (done []bool, err error) {
	outcomes := make([]bulkOutcome, len(entries))
	acts, goOn := errgroup.WithContext(ctx)
	acts.SetLimit(bulkActions)
	for place, entry := range entries {
		acts.Go(func() error {
			if goOn.Err() != nil {
				return nil
			}
			outcome := o.actOnOne(ctx, action, until, entry)
			// A Redis that takes no writes fails as a whole, whichever push it was that met it.
			if isRefusal(outcome.err) || !errors.Is(outcome.err, ErrNotStored) && o.redisAnswers(ctx) {
				outcomes[place] = outcome
				return nil
			}
			return outcome.err
		})
	}
	err = acts.Wait()
	done = make([]bool, len(entries))
	for place, outcome := range outcomes {
		done[place] = outcome.matched && outcome.err == nil
		sum.count(outcome)
	}
	if err == nil && ctx.Err() != nil {
		err = fmt.Errorf("%s many pushes: %w: %w", action.name, ErrIncomplete, ctx.Err())
	}
	return done, err
}

// redisAnswers asks for a key beside each queue: a cluster may keep the two on
// different servers, of which one may be down.
func (o *Operator) redisAnswers(ctx context.Context) bool {
	for _, key := range o.channel.ProbeKeys() {
		if o.redis.Exists(ctx, key).Err() != nil {
			return false
		}
	}
	return true
}

// isRefusal reports whether the error is none, or about the state of one push.
func isRefusal(err error) bool {
	var moved *StateError
	var closed *ClosedError
	var superseded *SupersededError
	return err == nil || errors.As(err, &moved) || errors.As(err, &closed) || errors.As(err, &superseded) || errors.Is(err, ErrNotFound)
}

func (b *Bulk) count(outcome bulkOutcome) {
	var closed *ClosedError
	switch {
	case !outcome.matched && outcome.err == nil:
		return
	case outcome.err == nil:
		b.Done++
	case errors.As(outcome.err, &closed):
		b.Closed++
	case isRefusal(outcome.err):
		b.Moved++
	default:
		b.Failed++
		if b.Fault == nil {
			b.Fault = outcome.err
		}
	}
	b.Matched++
}

func (o *Operator) actOnOne(ctx context.Context, action bulkAction, until Millis, entry entry) bulkOutcome {
	if !ValidID(entry.id) {
		return bulkOutcome{} // not one of ours
	}
	task, record, err := o.reader.find(ctx, entry.id)
	if err != nil {
		return bulkOutcome{err: fmt.Errorf("%s push %s: %w", action.name, entry.id, err)}
	}
	found, err := report(entry.id, task, record)
	if err != nil || found.State != action.filter.State && !retryWasCutShort(found, task, entry, action.filter.State) || entry.unended && found.ended ||
		!action.filter.chooses(found, entry, until) {
		return bulkOutcome{}
	}
	if err := action.act(ctx, found, task, record); err != nil {
		return bulkOutcome{matched: true, err: fmt.Errorf("%s push %s: %w", action.name, entry.id, err)}
	}
	return bulkOutcome{matched: true}
}

// retryWasCutShort reports whether a retry has taken the end, which was the given state, out
// of the record and got no further: then the push is in the index of dead pushes yet. A task
// tells which end that was. Without one nothing does, and every filter for ended pushes may
// have it.
func retryWasCutShort(found Report, task *asynq.TaskInfo, entry entry, ended State) bool {
	if found.ended || entry.unended || !ended.Ended() {
		return false
	}
	return task == nil || task.State == asynq.TaskStateArchived && archivedState(task.LastErr, nil) == ended
}

// chooses reports whether a push in the filter's state is meant, and was in it
// already at the given time: one that was retried may be back.
func (f Filter) chooses(found Report, at entry, until Millis) bool {
	last := Attempt{}
	if count := len(found.Attempts); count > 0 {
		last = found.Attempts[count-1]
	}
	since := found.Push.CreatedAt
	if f.State.Ended() {
		since = Millis(at.time)
		if at.unended {
			since += 999 // asynq keeps seconds
		}
	} else if since > until || last.StartedAt > until {
		return false
	}
	return since >= f.Since &&
		(f.ErrorType == "" || last.ErrorType == f.ErrorType) &&
		(f.ErrorCode == 0 || last.ErrorCode == f.ErrorCode) &&
		(f.MessagePrototypeKey == "" || found.Push.MessagePrototypeKey == f.MessagePrototypeKey)
}
