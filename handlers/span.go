package handlers

import (
	"errors"

	"go.opentelemetry.io/otel/attribute"
)

// What the span of a run says if there was no attempt.
const (
	spanDeferred = "deferred" // the push waits
	spanEnded    = "ended"    // there was nothing to do
)

// describe says in the span what came of an attempt.
func (r *run) describe(name string, outcome Outcome) {
	r.described = true
	if !r.span.Recording() {
		return
	}
	r.span.Set(attribute.Int("pushq.attempt", r.begun.Attempt), attribute.String("pushq.outcome", name),
		attribute.Bool("pushq.maybe_delivered", outcome.MaybeDelivered))
	if outcome.ErrorCode != 0 {
		r.span.Set(attribute.Int("pushq.error_code", outcome.ErrorCode))
	}
	if outcome.Verdict != Delivered {
		r.span.Fail(string(outcome.ErrorType))
	}
}

// endSpan ends the span of a run that has come to its answer.
func (r *run) endSpan(answer error) {
	if !r.span.Recording() {
		return
	}
	r.span.Set(attribute.String("pushq.push_id", r.push.ID), attribute.String("pushq.channel", r.Channel.Name))
	var deferred *deferral
	switch {
	case r.described:
	case errors.As(answer, &deferred):
		r.span.Set(attribute.String("pushq.outcome", spanDeferred))
	default:
		r.span.Set(attribute.String("pushq.outcome", spanEnded))
	}
	r.span.End()
}
