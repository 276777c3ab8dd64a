package tracing

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// A Span is a piece of work in a trace. If nothing is recorded of it, it only passes the
// trace on; so does the zero value, which has none.
type Span struct {
	trace Trace
	span  trace.Span // nil if nothing is recorded
}

// Recording reports whether there is any use in Set and Fail.
func (s Span) Recording() bool { return s.span != nil }

// Trace is what comes from this work belongs to.
func (s Span) Trace() Trace {
	if s.span == nil {
		return s.trace
	}
	here := s.span.SpanContext()
	return Trace{ID: s.trace.ID, Parent: formatParent(here), State: validState(here.TraceState().String())}
}

// Into lets the requests that are made with the context (Request) belong to the trace.
func (s Span) Into(ctx context.Context) context.Context {
	if s.span != nil {
		return trace.ContextWithSpan(ctx, s.span)
	}
	if s.trace == (Trace{}) {
		return ctx
	}
	parent := withSpan(s.trace.spanContext())
	if !parent.IsValid() {
		return ctx
	}
	return trace.ContextWithRemoteSpanContext(ctx, parent)
}

// Detached returns a context that has the trace of ctx, and no end.
func Detached(ctx context.Context) context.Context {
	span := trace.SpanFromContext(ctx)
	if !span.SpanContext().IsValid() {
		return context.Background()
	}
	return trace.ContextWithSpan(context.Background(), span)
}

// Set adds what is known of the work. Attributes leave the house: no texts, recipients
// or keys.
func (s Span) Set(attributes ...attribute.KeyValue) {
	if s.span != nil {
		s.span.SetAttributes(attributes...)
	}
}

// Fail says that the work was in vain, and of which kind the error was.
func (s Span) Fail(errorType string) {
	if s.span != nil {
		fail(s.span, errorType)
	}
}

// End ends the span.
func (s Span) End() {
	if s.span != nil {
		s.span.End()
	}
}

func fail(span trace.Span, errorType string) {
	span.SetStatus(codes.Error, "")
	if errorType != "" {
		span.SetAttributes(attribute.String("error.type", errorType))
	}
}
