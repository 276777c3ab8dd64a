// Package limiter hands out the moments at which requests to a provider may
// start: one shared pace for all processes, kept in Redis on Redis' own clock.
//
// A slot is an absolute start time. Each process has one dispatcher that keeps
// a few slots reserved and gives each to a waiter shortly before its time, so
// neither a slow Redis nor a paused process can bunch starts. Without Redis
// nobody gets a slot.
package limiter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// A Class of waiters. A class is served before the ones after it, first come
// first served within each.
type Class int

// The classes.
const (
	Resumed Class = iota // had a slot that came to nothing
	Immediate
	Windowed
	classes
)

func (c Class) String() string { return [...]string{"resumed", "immediate", "windowed"}[c] }

const (
	// MaxLateness is how long after its time a slot may still be used.
	MaxLateness = 10 * time.Millisecond

	// minLead is the least time before its slot at which a waiter gets it; what
	// the waiter still has to ask Redis must fit in.
	minLead = 8 * time.Millisecond

	maxWait         = time.Minute
	longBrake       = 10 * time.Second
	announceEvery   = 5 * time.Second
	brakeCheck      = time.Second // somebody may lift the brake
	retryAfterError = 100 * time.Millisecond
	retryWhenNone   = 100 * time.Millisecond

	maxAnswer = 200 // bytes of an answer that are kept with the brake
)

// Why Wait ended without a slot.
var (
	// ErrStopped means that the process is about to stop.
	ErrStopped = errors.New("the limiter has been stopped")
	// ErrNoSlot means that no slot came within a minute.
	ErrNoSlot = errors.New("no slot within a minute")
)

// BrakedError means that the provider asked for a pause of more than ten
// seconds.
type BrakedError struct {
	Remaining time.Duration
}

func (e *BrakedError) Error() string {
	return fmt.Sprintf("the provider asked to wait another %s", e.Remaining.Round(time.Millisecond))
}

// A Slot is the right to start one request.
type Slot struct {
	// At is the time to start, on this process' monotonic clock.
	At time.Time
	// RedisAt is the same instant on Redis' clock.
	RedisAt time.Time
}

// Late reports whether it is too late to use the slot.
func (s Slot) Late() bool { return time.Since(s.At) > MaxLateness }

// Stats are counted since the start.
type Stats struct {
	Waiting   [classes]int64 // by Class, now
	Used      int64          // slots handed to waiters and not given back
	Returned  int64          // slots given back
	Dropped   int64          // slots that came or were used too late
	Throttles int64          // answers of 429
	Delay     time.Duration  // in force, now
}

// Limiter is safe for concurrent use.
type Limiter struct {
	redis redis.UniversalClient
	keys  Keys
	delay time.Duration
	log   *slog.Logger

	join     chan *waiter
	returned chan Slot
	braked   chan time.Duration
	stopping chan struct{}
	stopOnce sync.Once
	done     chan struct{}

	waiting   [classes]atomic.Int64
	used      atomic.Int64
	givenBack atomic.Int64
	dropped   atomic.Int64
	throttles atomic.Int64
	inForce   atomic.Int64
}

// Options of a Limiter.
type Options struct {
	Keys
	Delay time.Duration // between two starts; whole microseconds
	Log   *slog.Logger
}

// Keys are where the shared state of a pace is in Redis. They have one hash tag.
type Keys struct {
	Pace     string // hash with the shared state
	Brake    string // exists while the provider asked to wait
	Override string // exists while an operator wants a slower pace
}

// Start starts a limiter and its dispatcher. Stop must be called.
func Start(client redis.UniversalClient, options Options) *Limiter {
	l := &Limiter{
		redis:    client,
		keys:     options.Keys,
		delay:    options.Delay,
		log:      options.Log,
		join:     make(chan *waiter),
		returned: make(chan Slot),
		braked:   make(chan time.Duration),
		stopping: make(chan struct{}),
		done:     make(chan struct{}),
	}
	l.inForce.Store(int64(options.Delay))
	go newDispatcher(l).run()
	return l
}

// Stop ends all waiting with ErrStopped and returns when the dispatcher has
// ended. It may be called more than once.
func (l *Limiter) Stop() {
	l.stopOnce.Do(func() { close(l.stopping) })
	<-l.done
}

// Stats returns the counts.
func (l *Limiter) Stats() Stats {
	stats := Stats{
		Used: l.used.Load(), Returned: l.givenBack.Load(), Dropped: l.dropped.Load(),
		Throttles: l.throttles.Load(), Delay: time.Duration(l.inForce.Load()),
	}
	for class := range classes {
		stats.Waiting[class] = l.waiting[class].Load()
	}
	return stats
}

// Wait returns a slot, a little before its time. It ends with ErrStopped,
// ErrNoSlot, a *BrakedError, or the context's error.
func (l *Limiter) Wait(ctx context.Context, class Class) (Slot, error) {
	w := &waiter{class: class, answer: make(chan answer, 1)}
	timeout := time.NewTimer(maxWait)
	defer timeout.Stop()
	l.waiting[class].Add(1)
	defer l.waiting[class].Add(-1)

	select {
	case l.join <- w:
	case <-l.stopping:
		return Slot{}, ErrStopped
	case <-ctx.Done():
		return Slot{}, context.Cause(ctx)
	}
	select {
	case got := <-w.answer:
		return got.slot, got.err
	case <-l.stopping:
		return Slot{}, l.leave(w, ErrStopped)
	case <-ctx.Done():
		return Slot{}, l.leave(w, context.Cause(ctx))
	case <-timeout.C:
		return Slot{}, l.leave(w, ErrNoSlot)
	}
}

// leave withdraws a waiter. A slot that it got meanwhile goes to the next.
func (l *Limiter) leave(w *waiter, reason error) error {
	if !w.settle() {
		if got := <-w.answer; got.err == nil {
			l.GiveBack(got.slot)
		}
	}
	return reason
}

// GiveBack offers a slot that cannot be used to the next waiter.
func (l *Limiter) GiveBack(slot Slot) {
	select {
	case l.returned <- slot:
	case <-l.stopping:
	}
}

// Drop counts a slot that was too late to be used.
func (l *Limiter) Drop() { l.dropped.Add(1) }

// A Throttle is an answer of 429.
type Throttle struct {
	// Pause is how long the provider asked to wait, 0 if it did not.
	Pause time.Duration
	// Answer is what it said, for people.
	Answer string
	// Served is how many requests the provider has served so far, of all pushes; nil if
	// nobody counts them, and then every 429 is about everybody.
	Served *int64
}

// Throttled tells all processes that the provider answered 429: the pace slows
// down, and if the provider asked for a pause, nobody starts during it. After the first one
// others count for ten minutes only if nobody is served between ten of them: until then each
// is about the push alone that got it, and changes nothing for others.
func (l *Limiter) Throttled(ctx context.Context, throttle Throttle) (alone bool, err error) {
	served := ""
	if throttle.Served != nil {
		served = strconv.FormatInt(*throttle.Served, 10)
	}
	said := strings.ToValidUTF8(throttle.Answer, "")
	if len(said) > maxAnswer {
		said = strings.ToValidUTF8(said[:maxAnswer], "")
	}
	reply, err := throttleScript.Run(ctx, l.redis, []string{l.keys.Pace, l.keys.Brake}, throttle.Pause.Milliseconds(), served, said).Int64Slice()
	if err == nil && len(reply) != 3 {
		err = fmt.Errorf("unexpected reply %v", reply)
	}
	if err != nil {
		l.throttles.Add(1)
		return false, fmt.Errorf("slow the pace down after a 429: %w", err)
	}
	if alone = reply[1] == 1; alone {
		return true, nil
	}
	l.throttles.Add(1)
	remaining := time.Duration(reply[0]) * time.Millisecond
	if reply[2] == 1 {
		l.log.Warn("the provider asks everybody to wait", slog.String("answer", said), slog.Duration("pause", remaining))
	}
	l.Braked(remaining)
	return false, nil
}

// Braked passes on that nobody may start for as long as remains, as another
// process has said in Redis. Slots that are reserved here are given up.
func (l *Limiter) Braked(remaining time.Duration) {
	select {
	case l.braked <- remaining:
	case <-l.stopping:
	}
}

// Pace reads what the limiters of all processes go by.
func (l *Limiter) Pace(ctx context.Context) (Pace, error) { return ReadPace(ctx, l.redis, l.keys) }
