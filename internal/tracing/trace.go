// Package tracing knows the trace that a push belongs to: what its sender calls it, how
// those whom pushq asks are told of it (W3C Trace Context), and the spans that pushq adds
// to it if it is told to (OpenTelemetry).
package tracing

import (
	"crypto/rand"
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/trace"
)

// A Trace is the trace that a push belongs to. The zero value is none.
type Trace struct {
	// ID is what the sender calls it, in any form; "" if that is the trace id in Parent.
	ID string `json:"id,omitempty"`
	// Parent is the traceparent that says what the push comes from, in version 00 of W3C
	// Trace Context, or "".
	Parent string `json:"parent,omitempty"`
	// State is the tracestate that goes with Parent, or "".
	State string `json:"state,omitempty"`
}

// New returns the trace of a sender's words. What is not valid of the last two is left
// out, as W3C wants it (www.w3.org/TR/trace-context, 3.2 and 3.3).
func New(id, parent, state string) Trace {
	read, valid := parseParent(parent)
	if !valid {
		return Trace{ID: id}
	}
	t := Trace{ID: id, Parent: formatParent(trace.NewSpanContext(read)), State: validState(state)}
	if id == read.TraceID.String() {
		t.ID = ""
	}
	return t
}

// The headers of W3C Trace Context, as net/http writes them.
const (
	parentHeader = "Traceparent"
	stateHeader  = "Tracestate"
)

// FromRequest reads the trace that a request belongs to. Two parents are none.
func FromRequest(header http.Header) Trace {
	parents := header[parentHeader]
	if len(parents) != 1 {
		return Trace{}
	}
	return New("", parents[0], strings.Join(header[stateHeader], ","))
}

// Name is what people and logs call the trace; "" if there is none.
func (t Trace) Name() string {
	if t.ID != "" {
		return t.ID
	}
	if read, valid := parseParent(t.Parent); valid {
		return read.TraceID.String()
	}
	return ""
}

// spanContext is what spans and requests continue: at least a trace id, if the trace has
// one that W3C knows, and a span if the sender has named one.
func (t Trace) spanContext() trace.SpanContext {
	if read, valid := parseParent(t.Parent); valid {
		read.TraceState, _ = trace.ParseTraceState(t.State)
		read.Remote = true
		return trace.NewSpanContext(read)
	}
	if id, valid := parseID(t.ID); valid {
		return trace.NewSpanContext(trace.SpanContextConfig{TraceID: id, Remote: true})
	}
	return trace.SpanContext{}
}

// withSpan names a span in place of the sender, who has named only the trace: a request
// that carries the trace has to have one.
func withSpan(parent trace.SpanContext) trace.SpanContext {
	if !parent.HasTraceID() || parent.HasSpanID() {
		return parent
	}
	var span trace.SpanID
	for !span.IsValid() {
		_, _ = rand.Read(span[:]) // it never fails
	}
	return parent.WithSpanID(span)
}
