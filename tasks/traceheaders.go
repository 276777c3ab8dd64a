package tasks

import "pushq/internal/tracing"

// The names under which a task's headers have the trace of its push.
const (
	traceIDHeader     = "trace_id"
	traceParentHeader = "traceparent"
	traceStateHeader  = "tracestate"
)

// A header is one of a task.
type header struct{ name, text string }

// headers are those of the task that carries the push, always in this order. Empty ones
// are left out.
func (p Push) headers() [3]header {
	return [...]header{{traceIDHeader, p.Trace.ID}, {traceParentHeader, p.Trace.Parent}, {traceStateHeader, p.Trace.State}}
}

// TraceOf reads the trace of a push from the headers of its task.
func TraceOf(headers map[string]string) tracing.Trace {
	if len(headers) == 0 {
		return tracing.Trace{}
	}
	return tracing.New(headers[traceIDHeader], headers[traceParentHeader], headers[traceStateHeader])
}
