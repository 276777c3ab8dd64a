// Package load posts pushes from a number of callers, follows them to their
// end, and measures both: the load test of the service that pushq replaces.
package load

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"pushq/tasks"
)

// Options of a run.
type Options struct {
	// Server is the address of the API, such as http://127.0.0.1:8080; Key is its
	// key, if it needs one.
	Server, Key string
	// Client should keep as many idle connections as there are Threads.
	Client *http.Client
	// Threads is how many callers post at a time, and later look up at a time.
	Threads int
	// Pushes is how many are posted by all threads together.
	Pushes int
	// Body makes the body of the push with that number, counted from 1.
	Body func(number int) []byte
	// Wait is how long to wait, after the last POST, until all pushes have ended.
	// 0 leaves out everything that comes after receiving.
	Wait     time.Duration
	Progress Progress
}

// Progress is told how far a run is. Step is called from several goroutines.
type Progress interface {
	// Begin says what comes now, and how many steps it has.
	Begin(phase string, steps int)
	Step()
}

// Reasons why a run is not complete.
var (
	ErrInterrupted = errors.New("interrupted")
	ErrNotEnded    = errors.New("some pushes have not ended in time")
)

const (
	pollInterval = 100 * time.Millisecond
	// lastLook is for looking once at each push that is left when Wait is over.
	lastLook = 30 * time.Second
)

// Run posts, waits and reports. With an error the report holds what has been
// measured until then. When ctx ends, POSTs under way are finished first.
func Run(ctx context.Context, options Options) (Report, error) {
	r := &run{Options: options, states: make(map[tasks.State]int)}
	err := r.post(ctx)
	if err == nil && r.Wait > 0 {
		err = r.follow(ctx)
	}
	if ctx.Err() != nil {
		err = ErrInterrupted
	}
	return r.report(), err
}

type run struct {
	Options

	mu            sync.Mutex
	ids           []string
	receiving     []time.Duration
	receivingTime time.Duration // of all
	unavailable   int
	failed        int
	firstFailure  error
	states        map[tasks.State]int
	requests      []request
	firstUnread   error
}

// post ends early with the first answer that says that no push of this kind
// would be accepted.
func (r *run) post(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	r.Progress.Begin("posting", r.Pushes)
	started := time.Now()
	var posted atomic.Int64
	for range r.Threads {
		group.Go(func() error {
			for ctx.Err() == nil {
				number := int(posted.Add(1))
				if number > r.Pushes {
					return nil
				}
				if err := r.postOne(context.WithoutCancel(ctx), number); err != nil {
					return err
				}
				r.Progress.Step()
			}
			return nil
		})
	}
	err := group.Wait()
	r.receivingTime = time.Since(started)
	return err
}

func (r *run) postOne(ctx context.Context, number int) error {
	body := r.Body(number)
	started := time.Now()
	id, err := r.send(ctx, body)
	took := time.Since(started)

	r.mu.Lock()
	defer r.mu.Unlock()
	var refused *refusedError
	switch {
	case err == nil:
		r.ids = append(r.ids, id)
		r.receiving = append(r.receiving, took)
		return nil
	case errors.As(err, &refused) && refused.status == http.StatusServiceUnavailable:
		r.unavailable++
	default:
		r.failed++
	}
	if r.firstFailure == nil {
		r.firstFailure = err
	}
	if refused != nil && refused.hopeless() {
		return err
	}
	return nil
}

// follow looks at the pushes in the order in which they were accepted, each
// until it has ended.
func (r *run) follow(ctx context.Context) error {
	r.Progress.Begin("delivering", len(r.ids))
	deadline := time.Now().Add(r.Wait)
	ctx, cancel := context.WithDeadline(ctx, deadline.Add(lastLook))
	defer cancel()
	var group errgroup.Group
	var taken atomic.Int64
	for range r.Threads {
		group.Go(func() error {
			for ctx.Err() == nil {
				place := int(taken.Add(1)) - 1
				if place >= len(r.ids) {
					return nil
				}
				r.note(r.await(ctx, r.ids[place], deadline))
			}
			return nil
		})
	}
	_ = group.Wait()
	if r.notEnded() > 0 {
		return ErrNotEnded
	}
	return nil
}

// await returns what a push has become, at the deadline whatever it is.
func (r *run) await(ctx context.Context, id string, deadline time.Time) (push, error) {
	for {
		found, err := r.lookUp(ctx, id)
		if err == nil && found.Status.Ended() || !time.Now().Before(deadline) {
			return found, err
		}
		select {
		case <-ctx.Done():
			return found, err
		case <-time.After(pollInterval):
		}
	}
}

func (r *run) note(found push, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		if r.firstUnread == nil {
			r.firstUnread = err
		}
		return
	}
	r.states[found.Status]++
	r.requests = append(r.requests, found.requests()...)
	if found.Status.Ended() {
		r.Progress.Step()
	}
}

// notEnded counts accepted pushes that have not been seen at their end,
// although the run was to wait for it.
func (r *run) notEnded() int {
	if r.Wait == 0 {
		return 0
	}
	left := len(r.ids)
	for state, count := range r.states {
		if state.Ended() {
			left -= count
		}
	}
	return left
}
