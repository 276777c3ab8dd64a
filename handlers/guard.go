package handlers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"pushq/internal/breaker"
	"pushq/tasks"
)

// askBreaker gets the permit for a request, or what is to be instead of it. It waits
// while others find out whether the service is back.
func (r *run) askBreaker() (instead *Outcome) {
	if r.Breaker == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(r.open, preparing)
	defer cancel()
	permit, err := r.Breaker.Allow(ctx, r.push.ID)
	if err != nil {
		outcome := Refused(err, r.DeadLetter)
		return &outcome
	}
	r.permit, r.probing = permit, permit.Probe
	return nil
}

// Refused is the outcome of a push for which a circuit breaker gives no permit. With
// deadLetter it ends, if that is because the breaker is open; else, and if it only waits for
// others to come first, it waits until the service may be asked again.
func Refused(err error, deadLetter bool) Outcome {
	var open *breaker.OpenError
	var later *breaker.LaterError
	switch {
	case errors.As(err, &later):
		return Outcome{Verdict: Postponed, ErrorMessage: "breaker: " + err.Error(), RetryAfter: later.After}
	case errors.As(err, &open) && deadLetter:
		return Outcome{Verdict: Permanent, ErrorType: tasks.ErrorOther, ErrorMessage: err.Error()}
	case errors.As(err, &open):
		return Outcome{Verdict: Postponed, ErrorMessage: fmt.Sprintf("breaker: %s is open", open.Service), RetryAfter: open.After}
	case errors.Is(err, context.Canceled):
		return Outcome{Verdict: Postponed, ErrorMessage: "shutdown"}
	default: // Redis does not tell, or others have waited for longer than a push may
		return Outcome{Verdict: Postponed, ErrorMessage: "breaker: " + err.Error()}
	}
}

// breakerResult is what an outcome says of the service. A refusal that is about one
// recipient shows that it works; one that is about the pace, or is inconclusive, shows nothing.
func breakerResult(outcome Outcome) breaker.Result {
	switch {
	case outcome.RefusesPushq:
		return breaker.Refused
	case outcome.ServiceFailed:
		return breaker.Bad
	case outcome.Throttled, outcome.Inconclusive:
		return breaker.Void
	default:
		return breaker.Good
	}
}

// tellBreaker gives the permit back, once. What Redis does not take, the breaker tells it
// again later.
func (r *run) tellBreaker(result breaker.Result) {
	if r.permit == nil {
		return
	}
	ctx, cancel := context.WithTimeout(r.life, tellTimeout)
	defer cancel()
	if err := r.permit.Report(ctx, result); err != nil {
		r.Log.Warn("circuit breaker was not told", slog.String("result", string(result)), slog.Any("error", err))
	}
	r.suspect, r.served = r.permit.Suspect, r.permit.Served
	r.permit = nil
}

// isFree reports whether the push does not pay for the attempt, which has shown that the
// service works for nobody: it has refused pushq itself, or a probe has failed. The push
// pays if the device may have got it, or if the service has worked for others since it last
// failed for this one.
func (r *run) isFree(outcome Outcome) bool {
	if r.Breaker == nil || r.DeadLetter || r.suspect || outcome.MaybeDelivered {
		return false
	}
	return outcome.RefusesPushq || r.probing && outcome.ServiceFailed && outcome.Verdict == Retryable
}

// judged is the outcome with what the breaker knows: a refusal of pushq itself is about
// this push after all if others are served. It may be tried again, since others are.
func (r *run) judged(outcome Outcome) Outcome {
	if outcome.RefusesPushq && r.suspect && outcome.Verdict == Permanent {
		outcome.RefusesPushq, outcome.Verdict = false, Retryable
	}
	return outcome
}

// tellTimeout is short: the outcome itself has to be recorded next.
const tellTimeout = time.Second

// pauseChannel stops the channel because the provider refuses pushq itself. If Redis does not
// take it, the next refusal tries again.
func (r *run) pauseChannel(outcome Outcome) {
	ctx, cancel := context.WithTimeout(r.life, tellTimeout)
	defer cancel()
	reason := fmt.Sprintf("the provider refuses it: %s %d, push %s", outcome.ErrorType, outcome.ErrorCode, r.push.ID)
	if err := r.Pause(ctx, reason); err != nil {
		r.Log.Warn("the channel was not paused although the provider refuses pushq itself",
			slog.String("channel", r.Channel.Name), slog.Any("error", err))
	}
}
