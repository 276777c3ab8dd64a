package tracing_test

import (
	"context"
	"encoding/hex"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	spans "go.opentelemetry.io/proto/otlp/trace/v1"

	"pushq/internal/testenv"
	"pushq/internal/tracing"
)

const (
	traceID    = "4bf92f3577b34da6a3ce929d0e0e4736"
	sampled    = "00-" + traceID + "-00f067aa0ba902b7-01"
	notSampled = "00-" + traceID + "-00f067aa0ba902b7-00"
	uuid       = "a3f5b9c1-2d4e-4a5f-9b2c-7e8d9f1a2b3c"
	uuidDigits = "a3f5b9c12d4e4a5f9b2c7e8d9f1a2b3c"
)

func open(t *testing.T, endpoint string, ratio float64) *tracing.Tracer {
	t.Helper()
	tracer, err := tracing.Open(t.Context(), tracing.Options{
		Endpoint: endpoint, Ratio: ratio, Version: "test", Log: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	return tracer
}

// requestIn is a request that is made for the span's work.
func requestIn(t *testing.T, span tracing.Span) *http.Request {
	t.Helper()
	request, err := http.NewRequestWithContext(tracing.Detached(span.Into(t.Context())), http.MethodPost, "http://provider.example/push", nil)
	require.NoError(t, err)
	return request
}

// pass takes a trace through accepting, delivering and a request, and returns the headers
// of that.
func pass(t *testing.T, tracer *tracing.Tracer, of tracing.Trace, status int) http.Header {
	t.Helper()
	accepting := tracer.Serve(of, "POST /push", time.Now())
	accepting.End()
	delivering := tracer.Continue(accepting.Trace(), "deliver", time.Now())
	request := requestIn(t, delivering)
	tracing.Request(request)(status)
	delivering.Fail("SWRVE")
	delivering.End()
	return request.Header
}

func byName(all []*spans.Span) map[string]*spans.Span {
	found := make(map[string]*spans.Span)
	for _, span := range all {
		found[span.GetName()] = span
	}
	return found
}

func TestSpansAreLinked(t *testing.T) {
	t.Parallel()
	receiver := testenv.StartSpanReceiver(t)
	tracer := open(t, receiver.URL(), 1)
	header := pass(t, tracer, tracing.New("order-4711", sampled, "congo=1"), http.StatusServiceUnavailable)
	tracer.Close()

	found := byName(receiver.Spans())
	require.Len(t, found, 3)
	accepting, delivering, requesting := found["POST /push"], found["deliver"], found["POST provider.example"]
	require.Equal(t, "00f067aa0ba902b7", hex.EncodeToString(accepting.GetParentSpanId()))
	require.Equal(t, accepting.GetSpanId(), delivering.GetParentSpanId())
	require.Equal(t, delivering.GetSpanId(), requesting.GetParentSpanId())
	for name, span := range found {
		require.Equal(t, traceID, hex.EncodeToString(span.GetTraceId()), name)
	}
	require.Equal(t, spans.Span_SPAN_KIND_SERVER, accepting.GetKind())
	require.Equal(t, spans.Span_SPAN_KIND_CONSUMER, delivering.GetKind())
	require.Equal(t, spans.Span_SPAN_KIND_CLIENT, requesting.GetKind())
	require.Equal(t, "order-4711", testenv.Attributes(delivering.GetAttributes())["pushq.trace_id"])
	require.Equal(t, spans.Status_STATUS_CODE_ERROR, delivering.GetStatus().GetCode())
	require.Equal(t, "SWRVE", testenv.Attributes(delivering.GetAttributes())["error.type"])
	require.Equal(t, "503", testenv.Attributes(requesting.GetAttributes())["error.type"])
	require.Equal(t, "00-"+traceID+"-"+hex.EncodeToString(requesting.GetSpanId())+"-01", header.Get("traceparent"))
	require.Equal(t, "congo=1", header.Get("tracestate"))
	require.Equal(t, "pushq", receiver.Process()["service.name"])
	require.Equal(t, "test", receiver.Process()["service.version"])
}

func TestATraceThatHasOnlyAnID(t *testing.T) {
	t.Parallel()
	receiver := testenv.StartSpanReceiver(t)
	tracer := open(t, receiver.URL(), 1)
	pass(t, tracer, tracing.New(uuid, "", ""), http.StatusOK)
	pass(t, tracer, tracing.Trace{}, http.StatusOK)
	tracer.Close()
	all := receiver.Spans()
	require.Len(t, all, 6)
	traces := map[string]int{}
	for _, span := range all {
		traces[hex.EncodeToString(span.GetTraceId())]++
		if span.GetName() == "POST /push" {
			require.Empty(t, span.GetParentSpanId())
		}
	}
	require.Len(t, traces, 2)
	require.Equal(t, 3, traces[uuidDigits], "the sender's id is that of the trace")
}

// What is not recorded is passed on as it came, and nothing is added to it.
func TestTracesWithoutSpans(t *testing.T) {
	t.Parallel()
	receiver := testenv.StartSpanReceiver(t)
	for name, tracer := range map[string]*tracing.Tracer{"no receiver": nil, "none are taken": open(t, receiver.URL(), 0)} {
		header := pass(t, tracer, tracing.New("", notSampled, "congo=1"), http.StatusOK)
		require.Equal(t, notSampled, header.Get("traceparent"), name)
		require.Equal(t, "congo=1", header.Get("tracestate"), name)

		require.Empty(t, pass(t, tracer, tracing.Trace{}, http.StatusOK), name)
		require.Empty(t, pass(t, tracer, tracing.New("order-4711", "", ""), http.StatusOK), "no id of W3C")

		first, second := pass(t, tracer, tracing.New(uuid, "", ""), http.StatusOK), pass(t, tracer, tracing.New(uuid, "", ""), http.StatusOK)
		require.Regexp(t, "^00-"+uuidDigits+"-[0-9a-f]{16}-00$", first.Get("traceparent"), name)
		require.NotEqual(t, first, second)

		for _, of := range []tracing.Trace{{}, tracing.New("order-4711", "", ""), tracing.New(uuid, "", ""), tracing.New("", notSampled, "")} {
			span := tracer.Serve(of, "POST /push", time.Now())
			require.False(t, span.Recording())
			require.Equal(t, of, span.Trace(), name)
		}
		tracer.Close()
	}
	require.Equal(t, sampled, pass(t, nil, tracing.New("", sampled, ""), http.StatusOK).Get("traceparent"), "who does not record, decides nothing")
	require.Empty(t, receiver.Spans())
}

func TestNothingIsAllocatedWithoutATrace(t *testing.T) {
	request, err := http.NewRequestWithContext(context.Background(), http.MethodPost, "http://provider.example/push", nil)
	require.NoError(t, err)
	var tracer *tracing.Tracer
	ctx := context.Background()
	require.Zero(t, testing.AllocsPerRun(100, func() {
		accepting := tracer.Serve(tracing.FromRequest(request.Header), "POST /push", time.Time{})
		accepting.End()
		delivering := tracer.Continue(accepting.Trace(), "deliver", time.Time{})
		_ = tracing.Detached(delivering.Into(ctx))
		tracing.Request(request)(http.StatusOK)
		delivering.End()
	}))
}

func TestTwoParentsAreNone(t *testing.T) {
	t.Parallel()
	header := http.Header{}
	header.Add("traceparent", sampled)
	header.Add("tracestate", "a=1")
	header.Add("tracestate", "b=2")
	require.Equal(t, tracing.Trace{Parent: sampled, State: "a=1,b=2"}, tracing.FromRequest(header))
	header.Add("traceparent", sampled)
	require.Equal(t, tracing.Trace{}, tracing.FromRequest(header))
}

// Whoever waits for the receiver would wait for ten seconds at least.
func TestAReceiverThatHangsHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	for name, endpoint := range map[string]string{
		"hangs": testenv.StartHangingSpanReceiver(t).URL(), "is dead": "http://" + testenv.FreeAddress(t),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tracer := open(t, endpoint, 1)
			started := time.Now()
			for range 10_000 {
				tracer.Serve(tracing.Trace{}, "POST /push", time.Now()).End()
			}
			require.Less(t, time.Since(started), time.Minute)
			started = time.Now()
			tracer.Close()
			require.Less(t, time.Since(started), time.Minute)
		})
	}
}
