// Package handlers is what a worker does with a push: the delivery pipeline,
// the same for every provider, and the asynq servers that feed it.
package handlers

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"github.com/oklog/ulid/v2"
	"golang.org/x/time/rate"

	"pushq/internal/breaker"
	"pushq/internal/limiter"
	"pushq/internal/metrics"
	"pushq/internal/tracing"
	"pushq/tasks"
)

// A Provider sends the pushes of one channel.
type Provider interface {
	// Prepare finds what the request needs. It returns the request, ready to be
	// made, or the outcome of a push for which none can be made now. It returns
	// soon after ctx has ended.
	//
	// Once called, send ends by itself: nothing may cut a request off that is
	// on the wire.
	Prepare(ctx context.Context, push tasks.Push) (send func() Outcome, instead *Outcome)
}

// Records is where attempts are kept (tasks.Records).
type Records interface {
	Begin(context.Context, tasks.Attempting) (tasks.Begun, error)
	Finish(context.Context, tasks.Push, tasks.Attempt, tasks.State) (recorded tasks.State, err error)
	FinishSent(context.Context, tasks.Push, tasks.Attempt) (completed bool, err error)
	Withdraw(ctx context.Context, push tasks.Push, token, reason string) error
	End(context.Context, tasks.Push, tasks.State) error
	Keep(ctx context.Context, push tasks.Push, until time.Time) error
	Get(ctx context.Context, id string) (*tasks.Record, error)
	Reopen(context.Context, tasks.Push) (reopened bool, err error)
}

// Slots are where the moments to send come from (limiter.Limiter).
type Slots interface {
	Wait(context.Context, limiter.Class) (limiter.Slot, error)
	GiveBack(limiter.Slot)
	Drop()
	Throttled(context.Context, limiter.Throttle) (alone bool, err error)
	Braked(remaining time.Duration)
}

// LastErrors tells how a task's last run ended (tasks.Reader).
type LastErrors interface {
	LastError(queue, id string) (string, error)
}

// Clock tells the time that all processes share (redisconn.Clock).
type Clock interface {
	Now() time.Time
}

// Policy says when the next attempt may be made (scheduler.FixedDelay). attempt is the
// number of the one that failed among those that count since the push was accepted, or
// retried by somebody.
type Policy interface {
	After(attempt int, finishedAt time.Time) time.Time
}

// Options of a Delivery.
type Options struct {
	Channel     tasks.Channel
	MaxAttempts int
	Policy      Policy
	// Timeout is the longest that the provider's send takes.
	Timeout time.Duration
	// Breaker is asked before each request, if it is not nil.
	Breaker *breaker.Breaker
	// DeadLetter ends the pushes that an open breaker refuses, instead of letting
	// them wait.
	DeadLetter bool
	// Pause stops the channel, for the reason that it is given, when the provider refuses
	// pushq itself: the push waits. If it is nil, the push waits behind the breaker, or, without
	// one or with DeadLetter, the refusal's verdict holds.
	Pause func(ctx context.Context, reason string) error
	// Zone is for windows of pushes that name none.
	Zone    *time.Location
	Metrics *metrics.Channel
	// Tracer is nil if pushq makes no spans.
	Tracer *tracing.Tracer
	Log    *slog.Logger
}

// Delivery takes pushes through the pipeline: window, what the request needs, circuit
// breaker, slot, Begin, send, Finish, answer. It is safe for concurrent use.
type Delivery struct {
	Options
	provider   Provider
	records    Records
	slots      Slots
	lastErrors LastErrors
	clock      Clock

	// unrecorded holds the ids of pushes with an outcome that Redis has not
	// taken yet: they must not be sent again meanwhile.
	unrecorded         sync.Map
	unrecordedWarnings rate.Sometimes // one of many pushes stands for all
	alarmErrors        sync.Map       // the same, by error type: *rate.Sometimes

	// completed holds the ids of immediate pushes whose tasks were completed with their
	// records, until asynq comes to complete them (Completed). One stays behind if a
	// lease ends at that very moment.
	completed sync.Map

	runs    sync.WaitGroup
	life    context.Context
	abandon context.CancelFunc
	// open ends when nothing new may begin.
	open context.Context
	stop context.CancelFunc
}

// NewDelivery returns a pipeline. Close must be called after the asynq servers
// that feed it have shut down.
func NewDelivery(options Options, provider Provider, records Records, slots Slots, lastErrors LastErrors, clock Clock) *Delivery {
	life, abandon := context.WithCancel(context.Background())
	open, stop := context.WithCancel(life)
	return &Delivery{
		Options: options, provider: provider, records: records, slots: slots, lastErrors: lastErrors, clock: clock,
		life: life, abandon: abandon, open: open, stop: stop, unrecordedWarnings: rate.Sometimes{Interval: 2 * time.Second},
	}
}

// Stop sends pushes back to the queue that still wait for what their request needs, or
// for the circuit breaker.
func (d *Delivery) Stop() { d.stop() }

// Close gives up recording outcomes that Redis has not taken so far, and
// returns when all runs have ended. A run that does not end is left behind: the
// process is about to end with it.
func (d *Delivery) Close() {
	d.abandon()
	ended := make(chan struct{})
	go func() {
		d.runs.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(closeTimeout):
		d.Log.Error("a push is still being sent, its attempt will be found interrupted")
	}
}

// ProcessTask is asynq's handler.
func (d *Delivery) ProcessTask(ctx context.Context, task *asynq.Task) error {
	d.runs.Add(1)
	defer d.runs.Done()
	id, _ := asynq.GetTaskID(ctx) // asynq sets both
	queue, _ := asynq.GetQueueName(ctx)
	if queue == d.Channel.ImmediateQueue() {
		d.completed.Delete(id)
	}
	run := &run{
		Delivery: d,
		push:     tasks.Push{ID: id, Trace: tasks.TraceOf(task.Headers())},
		queue:    queue,
		token:    ulid.Make().String(),
	}
	run.span = d.Tracer.Continue(run.push.Trace, "deliver", time.Now())
	answer := run.deliver(ctx, task.Payload())
	run.endSpan(answer)
	return answer
}

// Completed reports, once, whether the task of an immediate push that the handler has
// ended well is completed in Redis already.
func (d *Delivery) Completed(id string) bool {
	_, completed := d.completed.LoadAndDelete(id)
	return completed
}

const (
	closeTimeout = 5 * time.Second

	// persistPause is short: when a long outage of Redis ends, the outcome must
	// be written before the push has been handed out again (recovererDelay).
	persistPause = 200 * time.Millisecond
)

// persist repeats a write, which the client's timeouts bound
// (redisconn.Clients.Records), until Redis takes it or the process gives up: a push
// must not be sent again because of our own books. Another run of the push in
// this process waits for it.
func (d *Delivery) persist(push tasks.Push, write func(context.Context) error) error {
	d.unrecorded.Store(push.ID, true)
	defer d.unrecorded.Delete(push.ID)
	for {
		err := write(d.life)
		if err == nil {
			return nil
		}
		d.Metrics.StoreErrors.Inc()
		if d.life.Err() != nil {
			return fmt.Errorf("stopped before redis took it: %w", err)
		}
		d.unrecordedWarnings.Do(func() {
			d.Log.Warn("redis did not take an attempt's outcome, trying again", push.LogAttr(), slog.Any("error", err))
		})
		select {
		case <-time.After(persistPause):
		case <-d.life.Done():
		}
	}
}
