package tracing

import (
	"net/http"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// Request lets a request that pushq is about to make carry the trace of its context, and
// starts a span of its own if that one is recorded. answered is to be called with the
// status of the answer, 0 if there was none.
func Request(request *http.Request) (answered func(status int)) {
	parent := trace.SpanFromContext(request.Context())
	if !parent.SpanContext().IsValid() {
		return ignored
	}
	if !parent.IsRecording() {
		carry(request.Header, parent.SpanContext())
		return ignored
	}
	_, span := parent.TracerProvider().Tracer(scope).Start(request.Context(), request.Method+" "+request.URL.Hostname(),
		trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
			attribute.String("http.request.method", request.Method), attribute.String("server.address", request.URL.Hostname())))
	carry(request.Header, span.SpanContext())
	return func(status int) {
		if status != 0 {
			span.SetAttributes(attribute.Int("http.response.status_code", status))
		}
		switch {
		case status == 0:
			fail(span, "no answer")
		case status >= http.StatusBadRequest:
			fail(span, strconv.Itoa(status))
		}
		span.End()
	}
}

func ignored(int) {}

func carry(header http.Header, parent trace.SpanContext) {
	header.Set(parentHeader, formatParent(parent))
	if state := parent.TraceState().String(); state != "" {
		header.Set(stateHeader, state)
	}
}
