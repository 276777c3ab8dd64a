package handlers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"time"

	"github.com/hibiken/asynq"

	"pushq/internal/breaker"
	"pushq/internal/limiter"
	"pushq/internal/metrics"
	"pushq/internal/tracing"
	"pushq/scheduler"
	"pushq/scheduler/quartz"
	"pushq/tasks"
)

const (
	// busyDelay is how long a push waits whose attempt another run has in hand.
	busyDelay = 15 * time.Second
	// staleAttempt is how long after Begin a provider may still be asked to send.
	staleAttempt = 5 * time.Second
	// shortDelay is for deferrals whose cause may be over at any time.
	shortDelay = time.Second
	// preparing is how long a push may look for what its request needs.
	preparing = time.Minute
)

// A run is one call of the handler for one push.
type run struct {
	*Delivery
	push  tasks.Push
	queue string
	token string

	begun   tasks.Begun     // set by begin; Attempt is -1 if Redis did not answer
	permit  *breaker.Permit // nil if there is no breaker
	probing bool            // the request is to show whether the service works again
	suspect bool            // the service has worked for others since it last failed for this push, before this attempt
	served  *int64          // how many pushes the provider has served, when this attempt was reported; nil if nobody counts them
	slot    limiter.Slot
	sending bool // the request may have been made

	span      tracing.Span
	described bool // the span knows what came of the attempt
}

// deliver is one run of the push. Its answer is for asynq.
func (r *run) deliver(ctx context.Context, payload []byte) error {
	if _, waiting := r.unrecorded.Load(r.push.ID); waiting {
		return &deferral{reason: "an attempt's outcome is not recorded yet", until: time.Now().Add(shortDelay)}
	}
	answer := r.pipeline(ctx, payload)
	var deferred *deferral
	if errors.As(answer, &deferred) {
		return r.putBack(ctx, deferred)
	}
	return answer
}

// pipeline takes the push as far as it gets.
func (r *run) pipeline(ctx context.Context, payload []byte) (answer error) {
	defer func() {
		if cause := recover(); cause != nil {
			r.tellBreaker(breaker.Void)
			answer = r.recordWithoutRequest(ctx, Outcome{
				Verdict: Permanent, ErrorType: tasks.ErrorOther,
				ErrorMessage: fmt.Sprintf("panic: %v", cause), StackTrace: string(debug.Stack()),
				MaybeDelivered: r.sending,
			})
		}
	}()

	push, err := tasks.DecodePush(r.push.ID, payload)
	if err != nil {
		return r.recordWithoutRequest(ctx, Outcome{Verdict: Permanent, ErrorType: tasks.ErrorOther, ErrorMessage: err.Error()})
	}
	push.Trace = r.push.Trace
	r.push = push

	if outcome, deferred := r.checkWindow(r.clock.Now()); outcome != nil {
		return r.recordWithoutRequest(ctx, *outcome)
	} else if deferred != nil {
		return deferred
	}
	send, instead := r.prepare()
	if instead == nil {
		instead = r.askBreaker()
	}
	if instead != nil {
		return r.without(ctx, *instead)
	}
	if proceed, answer := r.waitForTurn(ctx); !proceed {
		r.tellBreaker(breaker.Void)
		return answer
	}
	started := time.Now()
	r.sending = true
	outcome := r.request(send)
	took := time.Since(started)
	r.tellBreaker(breakerResult(outcome))
	return r.conclude(ctx, r.judged(outcome), took)
}

// prepare bounds how long a push may look for what its request needs.
func (r *run) prepare() (send func() Outcome, instead *Outcome) {
	ctx, cancel := context.WithTimeout(r.open, preparing)
	defer cancel()
	return r.provider.Prepare(r.span.Into(ctx), r.push)
}

// without is the end of a run that makes no request.
func (r *run) without(ctx context.Context, instead Outcome) error {
	if instead.Verdict == Postponed {
		return postponed(instead)
	}
	return r.recordWithoutRequest(ctx, instead)
}

// request counts the request while it is under way, also if it panics.
func (r *run) request(send func() Outcome) Outcome {
	r.Metrics.InFlight.Inc()
	defer r.Metrics.InFlight.Dec()
	return send()
}

// checkWindow says whether the push may be sent at the given time. If not, it
// returns the answer that defers the push, or the outcome if it can never be
// sent.
func (r *run) checkWindow(at time.Time) (*Outcome, *deferral) {
	opening, err := r.push.Opening(at, r.Zone)
	switch {
	case errors.Is(err, quartz.ErrNever):
		return &Outcome{Verdict: Permanent, ErrorType: tasks.ErrorOther, ErrorMessage: "window closed, never opens again"}, nil
	case err != nil:
		return &Outcome{Verdict: Permanent, ErrorType: tasks.ErrorOther, ErrorMessage: err.Error()}, nil
	case opening.After(at):
		// Before the due time only if a host's clock is ahead of Redis'.
		return nil, windowDeferral(opening)
	}
	return nil, nil
}

func windowDeferral(opening time.Time) *deferral {
	until := scheduler.CeilSecond(opening)
	// By tasks.WindowPrefix the state reads SCHEDULED.
	reason := strings.TrimPrefix(tasks.WindowPrefix, tasks.DeferredPrefix)
	return &deferral{reason: reason + " opens " + until.UTC().Format(time.RFC3339), until: until}
}

// putBack is the last step of every run that defers its push. It keeps what is known of
// earlier attempts until the push comes again, which may be further off than any retention,
// or once more after a service has been dead for long.
func (r *run) putBack(ctx context.Context, deferred *deferral) error {
	err := r.records.Keep(ctx, r.push, deferred.until)
	if err == nil && r.begun.Attempt <= 0 { // Begin has not told whether the push is at its end
		var ended error
		if ended, err = r.endOrReopen(ctx); ended != nil {
			return ended
		}
	}
	if err != nil {
		r.Metrics.StoreErrors.Inc()
		r.Log.Warn("the record of a deferred push was not looked at, and may expire before it is sent", r.push.LogAttr(), slog.Any("error", err))
	}
	return deferred
}

// endOrReopen finds out why a push comes again whose record is at its end, as long as the
// task's last error tells (requeued): the text of a deferral is about to take its place. It
// returns the answer for a push that is to end again. One that an operator has requeued is
// no longer at its end afterwards.
func (r *run) endOrReopen(ctx context.Context) (answer, err error) {
	record, err := r.records.Get(ctx, r.push.ID)
	if err != nil || record == nil || record.End != tasks.Failed && record.End != tasks.GivenUp {
		return nil, err
	}
	requeued, err := r.requeued()
	if err != nil {
		return nil, err
	}
	if !requeued {
		return asTheRecordSays(record.End), nil
	}
	reopened, err := r.records.Reopen(ctx, r.push)
	if err == nil && !reopened {
		return superseded(record.End), nil
	}
	return nil, err
}

// waitForTurn gets a slot, begins the attempt and waits for the slot's time.
// If the push cannot proceed, it returns the answer.
func (r *run) waitForTurn(ctx context.Context) (proceed bool, answer error) {
	class := limiter.Immediate
	if r.queue == r.Channel.WindowQueue() {
		class = limiter.Windowed
	}
	var begunAt time.Time
	for {
		slot, err := r.slots.Wait(ctx, class)
		if err != nil {
			return false, r.withdraw(deferralFor(err))
		}
		// The window may have closed meanwhile.
		if outcome, deferred := r.checkWindow(slot.RedisAt); outcome != nil {
			r.slots.GiveBack(slot)
			return false, r.recordWithoutRequest(ctx, *outcome)
		} else if deferred != nil {
			r.slots.GiveBack(slot)
			return false, r.withdraw(deferred)
		}
		if begunAt.IsZero() {
			begunAt = time.Now()
		}
		proceed, answer := r.begin(ctx, true)
		if errors.Is(answer, errBraked) {
			// Another process has met the brake since this slot was reserved.
			r.slots.Drop()
			if r.begun.Attempt == 0 {
				begunAt = time.Time{}
			}
			continue
		}
		if !proceed {
			r.slots.GiveBack(slot)
			return false, r.withdraw(answer)
		}
		time.Sleep(time.Until(slot.At))
		if time.Since(begunAt) > staleAttempt {
			r.slots.Drop()
			return false, r.withdraw(&deferral{reason: "the worker was paused before it could send", until: time.Now().Add(shortDelay)})
		}
		if r.permit != nil && r.permit.Lapsed() {
			r.slots.Drop()
			return false, r.withdraw(&deferral{reason: "breaker: the permit lapsed before the request", until: time.Now().Add(shortDelay)})
		}
		if slot.Late() {
			r.slots.Drop()
			class = limiter.Resumed
			continue
		}
		r.slot = slot
		return true, nil
	}
}

// deferralFor turns the reason why there is no slot into the answer.
func deferralFor(err error) error {
	var braked *limiter.BrakedError
	switch {
	case errors.As(err, &braked):
		return &deferral{reason: "brake: " + err.Error(), until: scheduler.CeilSecond(time.Now().Add(braked.Remaining))}
	case errors.Is(err, limiter.ErrStopped):
		return &deferral{reason: "shutdown", until: time.Now()}
	default:
		return &deferral{reason: err.Error(), until: time.Now().Add(shortDelay)}
	}
}

// errBraked means that no request may be made now.
var errBraked = errors.New("the provider has asked everybody to wait")

// begin records the attempt. If the record does not allow it, begin returns the
// answer; errBraked is none, the caller waits on. It may be called again by the
// same run.
func (r *run) begin(ctx context.Context, request bool) (proceed bool, answer error) {
	attempting := tasks.Attempting{
		Push: r.push, Token: r.token, Interrupted: tasks.InterruptedAfter(r.Timeout), MaxAttempts: r.MaxAttempts,
		Request: request,
	}
	begun, err := r.records.Begin(ctx, attempting)
	if err == nil && begun.Answer == tasks.AlreadyEnded {
		if attempting.Again, err = r.requeued(); err == nil && attempting.Again {
			begun, err = r.records.Begin(ctx, attempting)
		}
	}
	if err != nil {
		r.Metrics.StoreErrors.Inc()
		r.Log.Warn("no attempt without redis", r.push.LogAttr(), slog.Any("error", err))
		if r.begun.Attempt == 0 {
			r.begun.Attempt = -1 // Redis may have recorded it all the same
		}
		return false, &deferral{reason: "redis cannot be reached", until: time.Now().Add(shortDelay)}
	}
	if begun.Interrupted > 0 {
		r.attempted(begun.Interrupted, metrics.OutcomeInterrupted, begun.Answer == tasks.Spent, 0, interrupted)
	}
	switch begun.Answer {
	case tasks.Go:
		r.begun = begun
		return true, nil
	case tasks.Braked:
		r.slots.Braked(begun.Brake)
		return false, errBraked
	case tasks.AlreadySent:
		return false, nil
	case tasks.AlreadyCancelled:
		return false, &ended{"cancelled"}
	case tasks.AlreadyEnded:
		return false, asTheRecordSays(begun.End)
	case tasks.Superseded:
		return false, superseded(begun.End)
	case tasks.Spent:
		if err := r.persist(r.push, func(ctx context.Context) error {
			return r.records.End(ctx, r.push, tasks.GivenUp)
		}); err != nil {
			return false, &deferral{reason: err.Error(), until: time.Now()}
		}
		r.Metrics.Finished(tasks.GivenUp)
		return false, &ended{tasks.GivenUpPrefix + "no attempts are left"}
	default:
		return false, &deferral{reason: "another worker has an attempt in process", until: time.Now().Add(busyDelay)}
	}
}

func asTheRecordSays(end tasks.State) error {
	return &ended{endPrefix(end) + "as the record says"}
}

func superseded(end tasks.State) error {
	return &ended{endPrefix(end) + "its idempotency key stands for another push by now"}
}

func endPrefix(end tasks.State) string {
	if end == tasks.GivenUp {
		return tasks.GivenUpPrefix
	}
	return tasks.FailedPrefix
}

// requeued reports whether an operator has run the push again after its end,
// rather than a worker having died between the record's end and asynq's. In
// the first case the task's last error is that end. A deferral since would have taken the
// record's end back (putBack).
func (r *run) requeued() (bool, error) {
	text, err := r.lastErrors.LastError(r.queue, r.push.ID)
	if err != nil {
		return false, fmt.Errorf("tell whether the push was requeued: %w", err)
	}
	return strings.HasPrefix(text, tasks.FailedPrefix) || strings.HasPrefix(text, tasks.GivenUpPrefix), nil
}

// withdraw closes the attempt, if one was begun, as not sent, and passes the
// answer on.
func (r *run) withdraw(answer error) error {
	if r.begun.Attempt == 0 {
		return answer
	}
	reason := "not sent: it has been delivered already"
	if answer != nil {
		reason = "not sent: " + answer.Error()
	}
	_ = r.persist(r.push, func(ctx context.Context) error {
		return r.records.Withdraw(ctx, r.push, r.token, reason)
	})
	return answer
}

// recordWithoutRequest records an attempt for which no request can be made.
func (r *run) recordWithoutRequest(ctx context.Context, outcome Outcome) error {
	if r.begun.Attempt <= 0 {
		if proceed, answer := r.begin(ctx, false); !proceed {
			return r.withdraw(answer)
		}
	}
	return r.conclude(ctx, outcome, 0)
}

// conclude records the outcome of the attempt and returns the answer.
func (r *run) conclude(ctx context.Context, outcome Outcome, took time.Duration) error {
	finishedAt := time.Now() // not on Redis' clock: asynq keeps retries by the host's
	// asynq cannot store a text that is not UTF-8, and keeps it with the task.
	outcome.ErrorMessage = cut(outcome.ErrorMessage, maxMessage)
	outcome.StackTrace = cut(outcome.StackTrace, maxStackTrace)
	if outcome.Throttled {
		outcome.RetryAfter = r.slowDown(outcome)
	}
	nextAttempt := r.Policy.After(r.begun.Counted, finishedAt)
	if asked := finishedAt.Add(outcome.RetryAfter); asked.After(nextAttempt) {
		nextAttempt = asked
	}
	free := r.isFree(outcome)
	if free {
		// Others come first.
		if next := finishedAt.Add(2 * r.Breaker.OpenFor); next.After(nextAttempt) {
			nextAttempt = next
		}
	}
	if outcome.RefusesPushq && r.Pause != nil {
		free = true
		r.pauseChannel(outcome)
	}
	end, answer := decide(outcome, free, r.begun.Last, nextAttempt)
	name := outcomeName(outcome, end)
	r.attempted(r.begun.Attempt, name, end != "", took, outcome)
	r.describe(name, outcome)
	if r.sending {
		r.Metrics.Answered(name, outcome.ErrorCode, took)
	}

	millis := took.Milliseconds()
	attempt := tasks.Attempt{
		Token: r.token, Status: tasks.AttemptOK, Millis: &millis,
		ErrorType: outcome.ErrorType, ErrorCode: outcome.ErrorCode,
		ErrorMessage: outcome.ErrorMessage, StackTrace: outcome.StackTrace,
		MaybeDelivered: outcome.MaybeDelivered, Replacement: outcome.Replacement, Probe: free,
	}
	if outcome.Verdict != Delivered {
		attempt.Status = tasks.AttemptError
	}
	if !r.slot.RedisAt.IsZero() {
		attempt.StartedAt = tasks.MillisOf(r.slot.RedisAt)
	}
	var recorded tasks.State
	if err := r.persist(r.push, func(life context.Context) (err error) {
		recorded, err = r.finish(life, ctx, attempt, end)
		return err
	}); err != nil {
		// The record still shows the attempt in process; it will be found
		// interrupted.
		return &deferral{reason: err.Error(), until: time.Now()}
	}
	if end != "" && recorded == end {
		r.Metrics.Finished(end)
	}
	if recorded == tasks.Sent {
		return nil // if not by this attempt, by a late answer to an earlier one
	}
	return answer
}

// slowDown tells everybody of a 429, and returns how long the push itself waits: longer than
// the others, if they wait too. They come first, and show whether it was about them.
func (r *run) slowDown(outcome Outcome) time.Duration {
	throttle := limiter.Throttle{Pause: outcome.RetryAfter, Answer: outcome.text(), Served: r.served}
	alone, err := r.slots.Throttled(r.life, throttle)
	if err != nil {
		r.Log.Warn("the pace was not slowed down", slog.Any("error", err))
	}
	if alone || r.served == nil {
		return outcome.RetryAfter
	}
	return outcome.RetryAfter * 3 / 2
}

// finish writes the outcome. While asynq still counts on this run, which its context
// tells, an immediate push that is SENT has its task completed with it.
func (r *run) finish(life, counted context.Context, attempt tasks.Attempt, end tasks.State) (recorded tasks.State, err error) {
	// In a cluster, the tasks of the other queue are not where the records are.
	if end != tasks.Sent || r.queue != r.Channel.ImmediateQueue() || counted.Err() != nil {
		return r.records.Finish(life, r.push, attempt, end)
	}
	completed, err := r.records.FinishSent(life, r.push, attempt)
	if completed {
		r.completed.Store(r.push.ID, true)
		if counted.Err() != nil {
			r.completed.Delete(r.push.ID) // asynq will not ask
		}
	}
	return tasks.Sent, err
}

var _ asynq.Handler = (*Delivery)(nil)
