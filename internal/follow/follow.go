// Package follow hands the entries of a stream in Redis to a function, in batches and at
// least once: an entry leaves the stream after the function has dealt with it. Followers
// of one group, in one process or many, share the entries.
package follow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/redis/go-redis/v9"
)

// An Entry of a stream: a push and its record at that time (tasks.Followers).
type Entry struct {
	StreamID string
	PushID   string
	Record   []byte // JSON, as it was stored; nothing here reads it
}

// Options of a Follower.
type Options struct {
	Stream string
	Group  string // "pushq" if empty
	Batch  int    // entries handled at once; 100 if 0
	// Handle deals with entries in the order of the stream, except that those that
	// another follower has left behind come late. It may be given an entry again. An
	// error repeats it with the same entries until it succeeds, or with those that a
	// *PartError leaves: what can never succeed it must put aside itself. A panic repeats
	// it with each of those by itself, and one that makes it panic three times is put aside
	// (AsideKey). It is to return soon after ctx has ended.
	Handle func(ctx context.Context, entries []Entry) error
	Log    *slog.Logger
}

// A PartError of Handle says that the first entries are dealt with, and why the others are
// not.
type PartError struct {
	Done  int
	Cause error
}

func (e *PartError) Error() string { return e.Cause.Error() }
func (e *PartError) Unwrap() error { return e.Cause }

// A Follower follows one stream.
type Follower struct {
	Options
	redis    redis.UniversalClient
	consumer string // its name in the group; made once

	silence time.Duration // after which a consumer is gone
	retry   backoff       // of Handle
	failing bool          // an outage is logged once
	lookAt  time.Time     // when to look next for what others have left behind
}

const (
	defaultGroup = "pushq"
	defaultBatch = 100

	// maxBlock is how long Redis keeps a read waiting for entries, and readTimeout how
	// long its answer may take: stopping waits for it.
	maxBlock    = 500 * time.Millisecond
	readTimeout = 2 * time.Second
	// leaveTimeout is for what is still to be told to Redis when the follower stops.
	leaveTimeout = 2 * time.Second

	// maxPanics is how often an entry may make Handle panic.
	maxPanics = 3
)

// MaxAside is about how many entries are kept aside, the latest.
const MaxAside = 1000

// AsideKey is the stream of the entries that make the handler of a stream panic: they hold
// up no others, and wait for somebody to look.
func AsideKey(stream string) string { return stream + ":aside" }

// New returns a follower; Run makes it work. The client must obey contexts and must not
// be an auto-pipeline: one of its connections waits most of the time.
func New(client redis.UniversalClient, options Options) *Follower {
	options.Group = cmp.Or(options.Group, defaultGroup)
	options.Batch = cmp.Or(options.Batch, defaultBatch)
	return &Follower{
		Options: options, redis: client, consumer: ulid.Make().String(),
		silence: time.Minute,
		retry:   backoff{first: 200 * time.Millisecond, longest: 30 * time.Second},
	}
}

// Run follows the stream until ctx ends, and a second or so longer. It is for one
// goroutine. What Handle has not dealt with by then is left to the next follower, or to
// another one soon. What one holds that does not stop but dies, others take over after a
// minute.
func (f *Follower) Run(ctx context.Context) {
	defer f.leave(ctx)
	again := backoff{first: f.retry.first, longest: 2 * time.Second}
	for ctx.Err() == nil {
		entries, err := f.next(ctx)
		f.tell(ctx, "cannot read a stream, trying again", err)
		if err != nil {
			again.wait(ctx)
			continue
		}
		again.reset()
		if len(entries) > 0 {
			f.deal(ctx, entries)
		}
	}
}

// deal has a batch handled and removes it. When ctx ends, what is left of it is left to
// other followers.
func (f *Follower) deal(ctx context.Context, entries []Entry) {
	held := f.hold(ctx, entries)
	together := len(entries)
	for ctx.Err() == nil && len(held.all()) > 0 {
		failed, cause := f.dealWith(ctx, held, together)
		if cause != nil && len(failed) == 1 {
			f.Log.Error("an entry of a stream is put aside, for dealing with it ends in a panic", slog.String("stream", f.Stream),
				slog.String("id", failed[0].PushID), slog.String("aside", AsideKey(f.Stream)), slog.Any("error", cause))
			f.untilDone(ctx, func() error { return f.putAside(ctx, failed[0]) })
			held.drop(1)
		}
		together = 1 // which of them is it?
	}
	held.stop()
	if left := held.all(); len(left) > 0 {
		f.release(ctx, left)
	}
}

// dealWith has the first entries that are held handled, so many at once, and removes
// them. It gives up when ctx ends and when Handle panics, too often if there is only one
// entry; then it returns those with which it did.
func (f *Follower) dealWith(ctx context.Context, held *batch, together int) ([]Entry, *panicError) {
	f.retry.reset()
	for panics := 0; together > 0; {
		entries := held.all()[:together]
		err := f.handle(ctx, entries)
		f.tell(ctx, "cannot deal with the entries of a stream, trying again", err)
		done := 0
		if part, ok := errors.AsType[*PartError](err); ok {
			done = part.Done
		} else if err == nil {
			done = together
		}
		if done > 0 {
			f.untilDone(ctx, func() error { return f.remove(ctx, entries[:done]) })
			held.drop(done)
			together -= done
			f.retry.reset()
		}
		if cause, panicked := errors.AsType[*panicError](err); panicked {
			if panics++; together > 1 || panics == maxPanics {
				return entries, cause
			}
		}
		if err != nil && !f.retry.wait(ctx) {
			break
		}
	}
	return nil, nil
}

// untilDone repeats what is to be told to Redis, until it has taken that or ctx ends.
func (f *Follower) untilDone(ctx context.Context, do func() error) {
	again := backoff{first: f.retry.first, longest: 2 * time.Second}
	for {
		err := do()
		f.tell(ctx, "cannot remove entries of a stream, trying again", err)
		if err == nil || !again.wait(ctx) {
			return
		}
	}
}

// A panicError is a panic of Handle.
type panicError struct {
	cause any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v\n%s", e.cause, e.stack) }

func (f *Follower) handle(ctx context.Context, entries []Entry) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = &panicError{cause, debug.Stack()}
		}
	}()
	return f.Handle(ctx, entries)
}

// tell logs the beginning and the end of an outage.
func (f *Follower) tell(ctx context.Context, message string, err error) {
	switch {
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return
	case err != nil && !f.failing:
		f.Log.Warn(message, slog.String("stream", f.Stream), slog.Any("error", err))
	case err == nil && f.failing:
		f.Log.Info("following a stream again", slog.String("stream", f.Stream))
	}
	f.failing = err != nil
}
