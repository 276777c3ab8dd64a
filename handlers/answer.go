package handlers

import (
	"context"
	"errors"
	"time"

	"github.com/hibiken/asynq"

	"pushq/scheduler"
	"pushq/tasks"
)

// The answers that Delivery gives asynq, besides nil for a push that is SENT.
// Their texts stay with the task, and tasks.StateOf reads the state from them.

// deferral puts the push back without counting anything.
type deferral struct {
	reason string
	until  time.Time
}

func (d *deferral) Error() string { return tasks.DeferredPrefix + d.reason }

// failedAttempt puts the push back for its next attempt.
type failedAttempt struct {
	text  string
	until time.Time
}

func (f *failedAttempt) Error() string { return "attempt failed: " + f.text }

// ended takes the push out of the queue. It matches asynq.SkipRetry, which
// makes asynq archive the task, but has a text of its own.
type ended struct {
	text string
}

func (e *ended) Error() string        { return e.text }
func (e *ended) Is(target error) bool { return target == asynq.SkipRetry }

// decide turns the outcome of an attempt into the end of the push, if it is
// one, and the answer to asynq. It is the only place that does. A push that does not pay for
// the attempt (run.isFree) waits like those that the breaker refuses.
func decide(outcome Outcome, free, lastAttempt bool, nextAttempt time.Time) (end tasks.State, answer error) {
	switch {
	case outcome.Verdict == Delivered:
		return tasks.Sent, nil
	case free && outcome.RefusesPushq:
		return "", &deferral{reason: "the provider refuses pushq itself: " + outcome.text(), until: scheduler.CeilSecond(nextAttempt)}
	case outcome.Verdict == Permanent:
		return tasks.Failed, &ended{tasks.FailedPrefix + outcome.text()}
	case free:
		return "", &deferral{reason: "breaker: the probe failed: " + outcome.text(), until: scheduler.CeilSecond(nextAttempt)}
	case lastAttempt:
		return tasks.GivenUp, &ended{tasks.GivenUpPrefix + outcome.text()}
	default:
		return "", &failedAttempt{text: outcome.text(), until: scheduler.CeilSecond(nextAttempt)}
	}
}

// postponed puts the push back until the breaker may let it through. asynq keeps whole
// seconds: without rounding up, it would come too early and be put back again.
func postponed(outcome Outcome) *deferral {
	until := time.Now().Add(max(outcome.RetryAfter, shortDelay))
	return &deferral{reason: outcome.ErrorMessage, until: scheduler.CeilSecond(until)}
}

// recovererDelay lets a worker that was only cut off from Redis write its
// outcomes first, when Redis is back (persistPause). asynq asks for it when it
// takes a task back itself, half a minute after the end of the lease
// (recoverer.go). For one that the caretaker has taken back, sooner, there is
// takeBackDelay in tasks.
const recovererDelay = 5 * time.Second

// retryDelay is asynq's RetryDelayFunc. interval is for errors that are not
// Delivery's own: a cancel from asynq's tools, or a bug.
func retryDelay(err error, interval time.Duration) time.Duration {
	var deferred *deferral
	if errors.As(err, &deferred) {
		return time.Until(deferred.until)
	}
	var failed *failedAttempt
	if errors.As(err, &failed) {
		return time.Until(failed.until)
	}
	if errors.Is(err, asynq.ErrLeaseExpired) {
		return recovererDelay // the record knows what to do next
	}
	return time.Until(scheduler.CeilSecond(time.Now().Add(interval)))
}

// isFailure is asynq's IsFailure: only failed attempts count in its statistics.
func isFailure(err error) bool {
	var deferred *deferral
	return !errors.As(err, &deferred) && !errors.Is(err, asynq.ErrLeaseExpired) &&
		!errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}
