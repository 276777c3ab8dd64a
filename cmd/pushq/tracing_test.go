package main

import (
	"encoding/hex"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	spans "go.opentelemetry.io/proto/otlp/trace/v1"

	"pushq/internal/swrvesim"
	"pushq/internal/testenv"
	"pushq/tasks"
)

const (
	traceText   = "4bf92f3577b34da6a3ce929d0e0e4736"
	traceParent = "00-" + traceText + "-00f067aa0ba902b7-01"
)

// acceptTraced posts a push that belongs to a trace.
func acceptTraced(t *testing.T, process *testenv.Process, user string) (id string) {
	t.Helper()
	status, header, answer := post(t, process, pushBody(user), "traceparent", traceParent)
	require.Equal(t, http.StatusAccepted, status, answer)
	return strings.TrimPrefix(header.Get("Location"), "/push/")
}

// lines are those of the log that have the text.
func lines(process *testenv.Process, text string) (found []string) {
	for _, line := range process.Stderr() {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

// A story is the spans of one trace.
type story struct {
	t     *testing.T
	spans map[string][]*spans.Span // by name, in the order of their beginning
}

// storyOf stops the process, so that all of its spans are there.
func storyOf(t *testing.T, process *testenv.Process, receiver *testenv.SpanReceiver, trace string) story {
	t.Helper()
	process.Terminate()
	require.Zero(t, process.Wait(20*time.Second))
	s := story{t, map[string][]*spans.Span{}}
	for _, span := range receiver.Spans() {
		if hex.EncodeToString(span.GetTraceId()) == trace {
			s.spans[span.GetName()] = append(s.spans[span.GetName()], span)
		}
	}
	return s
}

func (s story) one(name string) *spans.Span {
	s.t.Helper()
	require.Len(s.t, s.spans[name], 1, name)
	return s.spans[name][0]
}

func attributes(span *spans.Span) map[string]string { return testenv.Attributes(span.GetAttributes()) }

func TestATraceIsPassedOnWithoutSpans(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	serve := w.startReady("serve")
	id := acceptTraced(t, serve, "503x1-user")
	require.Equal(t, traceText, waitFor(t, serve, id, tasks.Sent, 20*time.Second).TraceID)
	plain := accept(t, serve, "plain")
	require.Empty(t, waitFor(t, serve, plain, tasks.Sent, 20*time.Second).TraceID)
	for _, request := range w.Swrve.Ledger() {
		if request.User == "plain" {
			require.Empty(t, request.TraceParent)
		} else {
			require.Equal(t, traceParent, request.TraceParent)
		}
	}
	require.Len(t, w.Swrve.Ledger(), 3)
	for _, line := range lines(serve, "id="+id) {
		require.Contains(t, line, "trace_id="+traceText)
	}
	require.Len(t, lines(serve, "trace_id="), 2)
}

func TestSpansOfAPush(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	receiver := testenv.StartSpanReceiver(t)
	serve := w.startReady("serve", "TRACING_OTLPENDPOINT="+receiver.URL())
	id := acceptTraced(t, serve, "503x1-user")
	waitFor(t, serve, id, tasks.Sent, 20*time.Second)
	s := storyOf(t, serve, receiver, traceText)

	accepting := s.one("POST /push")
	require.Equal(t, "00f067aa0ba902b7", hex.EncodeToString(accepting.GetParentSpanId()))
	require.Equal(t, id, attributes(accepting)["pushq.push_id"])
	delivering, requesting := s.spans["deliver"], s.spans["POST 127.0.0.1"]
	require.Len(t, delivering, 2)
	require.Len(t, requesting, 2)
	for attempt, request := range w.Swrve.Ledger() {
		require.Equal(t, accepting.GetSpanId(), delivering[attempt].GetParentSpanId())
		require.Equal(t, delivering[attempt].GetSpanId(), requesting[attempt].GetParentSpanId())
		require.Equal(t, "00-"+traceText+"-"+hex.EncodeToString(requesting[attempt].GetSpanId())+"-01", request.TraceParent)
		require.Equal(t, id, attributes(delivering[attempt])["pushq.push_id"])
		require.Less(t, accepting.GetStartTimeUnixNano(), delivering[attempt].GetStartTimeUnixNano())
		require.LessOrEqual(t, delivering[attempt].GetStartTimeUnixNano(), requesting[attempt].GetStartTimeUnixNano())
		require.LessOrEqual(t, requesting[attempt].GetEndTimeUnixNano(), delivering[attempt].GetEndTimeUnixNano())
	}
	require.Equal(t, "retry", attributes(delivering[0])["pushq.outcome"])
	require.Equal(t, "SWRVE", attributes(delivering[0])["error.type"])
	require.Equal(t, spans.Status_STATUS_CODE_ERROR, delivering[0].GetStatus().GetCode())
	require.Equal(t, "503", attributes(requesting[0])["error.type"])
	require.Equal(t, "ok", attributes(delivering[1])["pushq.outcome"])
	require.NotContains(t, attributes(delivering[1]), "error.type")
	for _, span := range receiver.Spans() {
		require.NotRegexp(t, "503x1-user|Hello client|push_key", span.String())
	}
}

func TestSpansOfANotification(t *testing.T) {
	t.Parallel()
	const id, digits = "a3f5b9c1-2d4e-4a5f-9b2c-7e8d9f1a2b3c", "a3f5b9c12d4e4a5f9b2c7e8d9f1a2b3c"
	w := newFCMWorld(t)
	receiver := testenv.StartSpanReceiver(t)
	serve := w.serve("TRACING_OTLPENDPOINT=" + receiver.URL())
	push, _ := notify(t, serve, notificationBody("device-1", "trace-device-1", id))
	require.Equal(t, id, waitFor(t, serve, push, tasks.Sent, 20*time.Second).TraceID)
	require.NotEmpty(t, lines(serve, "trace_id="+id))
	s := storyOf(t, serve, receiver, digits)

	accepting, delivering := s.one("POST /notifications"), s.one("deliver")
	require.Empty(t, accepting.GetParentSpanId())
	require.Equal(t, accepting.GetSpanId(), delivering.GetParentSpanId())
	require.Equal(t, id, attributes(delivering)["pushq.trace_id"])
	require.Equal(t, "fcm", attributes(delivering)["pushq.channel"])
	asking, sending := s.one("GET 127.0.0.1"), s.one("POST 127.0.0.1")
	require.Equal(t, delivering.GetSpanId(), asking.GetParentSpanId())
	require.Equal(t, delivering.GetSpanId(), sending.GetParentSpanId())
	require.Equal(t, "00-"+digits+"-"+hex.EncodeToString(asking.GetSpanId())+"-01", w.templates.Ledger()[0].TraceParent)
	require.Equal(t, "00-"+digits+"-"+hex.EncodeToString(sending.GetSpanId())+"-01", w.firebase.Ledger()[0].TraceParent)
	require.Equal(t, id, w.firebase.Ledger()[0].Data["trace_id"])
	for _, span := range receiver.Spans() {
		require.NotRegexp(t, "device-1|Ada|example.com", span.String())
	}
}

// A receiver that takes no spans holds up neither a push nor a stop.
func TestNobodyWaitsForTheReceiverOfSpans(t *testing.T) {
	t.Parallel()
	for name, endpoint := range map[string]string{
		"hangs": testenv.StartHangingSpanReceiver(t).URL(), "is dead": "http://" + testenv.FreeAddress(t),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const pushes = 1000
			w := newWorld(t, swrvesim.Config{})
			serve := w.startReady("serve", "TRACING_OTLPENDPOINT="+endpoint)
			waitForAll(t, serve, acceptMany(t, serve, pushes, "user"), tasks.Sent, 30*time.Second)
			require.Len(t, w.Swrve.Ledger(), pushes)
			started := time.Now()
			serve.Terminate()
			require.Zero(t, serve.Wait(20*time.Second))
			require.Less(t, time.Since(started), 30*time.Second)
			require.LessOrEqual(t, len(lines(serve, "spans are lost")), 1)
		})
	}
}
