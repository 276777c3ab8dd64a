// Package breaker keeps workers from a service that does not work: one circuit breaker
// for all processes that share a Redis, on Redis' clock.
//
// While the breaker is closed, calls that are permitted after the last good one, those
// that have not been reported included, are no more than the failures that open it. So a
// service that has died is called that many times, and then once each time that the
// breaker has been open for long enough (the first time twice), by all workers together.
// Without Redis nobody is permitted anything.
//
// A breaker judges the service, and no call. So each call names its subject, such as a
// push: what fails for one again, after others have been served since it failed, is about it,
// and says nothing about the service.
package breaker

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/redis/go-redis/v9"
)

// A State of a breaker.
type State string

// The states.
const (
	Closed   State = "closed"    // calls are made
	Open     State = "open"      // none is
	HalfOpen State = "half_open" // one at a time shows whether the service works again; the first time two
)

// Keys are where a breaker is in Redis.
type Keys struct {
	Hash string // all there is to know, but for
	// Failing, the subjects that fail. It is in the same slot of a cluster.
	Failing string
	// StateCopy and FailuresCopy are written after changes for those who read nothing
	// else. They may be in other slots of a cluster than Hash, and lag behind.
	StateCopy, FailuresCopy string
}

// Options of a Breaker. All processes should have the same: each goes by its own.
type Options struct {
	Keys
	Service   string        // as logs and errors name it
	Failures  int           // in a row, that open it
	OpenFor   time.Duration // until a call shows whether the service works again; whole milliseconds
	Successes int           // in a row, that close it then
	// Forget is after how long a call stands in nobody's way any more that was never
	// reported and whose permit nobody has renewed (Run): its process has died.
	Forget time.Duration
	Log    *slog.Logger
	// OnOpen is called when a call of this process has opened the breaker, or kept it
	// open that was to show whether the service works again: in one process of all. It
	// may be nil, and must be quick.
	OnOpen func()
}

// A Breaker is safe for concurrent use.
type Breaker struct {
	Options
	redis redis.UniversalClient

	mutex      sync.Mutex
	generation int64                 // of the state that this process has seen last
	copied     bool                  // the copies are not behind by what this process has changed
	overdue    []report              // that Redis has not taken
	permits    map[*Permit]time.Time // of that generation that are out, and when each was last renewed
}

// New returns the breaker that all processes with the same keys share. Who makes calls
// has Run beside them. The client must obey contexts, or have short timeouts.
func New(client redis.UniversalClient, options Options) *Breaker {
	return &Breaker{Options: options, redis: client, permits: make(map[*Permit]time.Time)}
}

// An OpenError says that no call may be made now, whatever it is about.
type OpenError struct {
	Service string
	// After is when to ask again.
	After time.Duration
}

func (e *OpenError) Error() string {
	return fmt.Sprintf("the circuit breaker of %s is open for another %s", e.Service, e.After.Round(time.Millisecond))
}

// A LaterError says that no call may be made now for this subject, which has failed, although
// the breaker is not open any more, or has been so for long enough: others come first, or as
// many calls are under way for suspects like it as may be.
type LaterError struct {
	Service string
	// After is when to ask again.
	After time.Duration
}

func (e *LaterError) Error() string {
	return fmt.Sprintf("%s has failed for it, and is called for others first", e.Service)
}

// A Result is what became of a permitted call.
type Result string

// The results.
const (
	Good    Result = "good"    // the service works, whatever it answered
	Bad     Result = "bad"     // it does not
	Refused Result = "refused" // it takes no call of ours, whatever that is about
	Void    Result = "void"    // the call was not made, or says nothing about the service
)

// A Permit is the right to make one call. It must be reported.
type Permit struct {
	// Probe means that the call is to show whether the service works again.
	Probe bool
	// Suspect means that the service has worked for another subject since it last failed
	// for this one, before this call. Report brings it up to date.
	Suspect bool
	// Served is how many calls have been reported as good, about all subjects; nil until
	// Redis has taken the report of this one.
	Served *int64

	breaker *Breaker
	call    string // made once
	subject string
}

// How soon to ask again while calls under way have to show whether the service works. It
// doubles from the one to the other.
const (
	shortestPause = 10 * time.Millisecond
	longestPause  = 250 * time.Millisecond
)

// Allow returns the permission to make a call about the subject, which is the same for
// each call that is repeated; "" is none. It waits as long as calls under way have to show
// first whether the service works, and ends with an *OpenError, a *LaterError, the
// context's error, or that of Redis.
//
// When the breaker has been open for OpenFor, a subject for which no call has failed may
// be the next one; one that has failed, after half as long again; and that of the latest
// call that failed while the breaker was half open, after twice as long. So the same one
// is not asked about twice in a row while another one waits.
func (b *Breaker) Allow(ctx context.Context, subject string) (*Permit, error) {
	if err := b.catchUp(ctx); err != nil {
		return nil, err
	}
	permit := &Permit{breaker: b, call: ulid.Make().String(), subject: subject}
	for pause := shortestPause; ; pause = min(2*pause, longestPause) {
		asked := time.Now()
		answer, err := b.run(ctx, "ask", permit.call, subject)
		switch {
		case err != nil:
			b.owe(report{permit.call, subject, Void}) // Redis may have permitted it
			if ctx.Err() != nil {
				return nil, context.Cause(ctx) // and not what it did to a connection
			}
			return nil, err
		case answer.text == "GO":
			permit.Probe, permit.Suspect = answer.state == HalfOpen, answer.suspect
			b.hold(asked, permit, answer.generation)
			return permit, nil
		case answer.text == "OPEN":
			return nil, &OpenError{Service: b.Service, After: answer.wait}
		case answer.text == "LATER":
			return nil, &LaterError{Service: b.Service, After: answer.wait}
		}
		timer := time.NewTimer(min(answer.wait, pause/2+rand.N(pause)))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, context.Cause(ctx)
		}
	}
}

// Report says what became of the call. It may be repeated. What Redis does not take is
// told it again before this process is permitted another call.
func (p *Permit) Report(ctx context.Context, result Result) error {
	p.breaker.drop(p)
	answer, err := p.breaker.run(ctx, string(result), p.call, p.subject)
	if err != nil {
		p.breaker.owe(report{p.call, p.subject, result})
		return err
	}
	p.Suspect, p.Served = answer.suspect, &answer.goods
	return nil
}
