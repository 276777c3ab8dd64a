package api

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	"pushq/internal/tracing"
	"pushq/tasks"
)

const (
	traceText   = "4bf92f3577b34da6a3ce929d0e0e4736"
	traceParent = "00-" + traceText + "-00f067aa0ba902b7-01"
)

// traces returns those of the pushes that wait in a queue.
func (s *testService) traces(queue string) []tracing.Trace {
	s.t.Helper()
	pending, err := asynq.NewInspectorFromRedisClient(s.client).ListPendingTasks(queue)
	require.NoError(s.t, err)
	var found []tracing.Trace
	for _, task := range pending {
		found = append(found, tasks.TraceOf(task.Headers))
	}
	return found
}

// traceShown is the field of GET /push/{id}.
func (s *testService) traceShown(id string) any {
	s.t.Helper()
	var shown map[string]any
	require.NoError(s.t, json.Unmarshal([]byte(s.get("/push/"+id).body), &shown))
	require.Contains(s.t, shown, "traceId")
	return shown["traceId"]
}

func TestAPushBelongsToTheTraceOfItsRequest(t *testing.T) {
	t.Parallel()
	s := startService(t)
	id := s.accept(push("messagePrototypeKey", `"nobody knows it"`), "traceparent", traceParent, "tracestate", "congo=1")
	require.Equal(t, []tracing.Trace{{Parent: traceParent, State: "congo=1"}}, s.traces(tasks.Swrve.ImmediateQueue()))
	require.Equal(t, traceText, s.traceShown(id))
	require.Contains(t, s.log.String(), "id="+id+" trace_id="+traceText+" messagePrototypeKey=")
}

func TestATraceThatIsNotValidIsIgnored(t *testing.T) {
	t.Parallel()
	s := startService(t)
	for _, header := range [][]string{
		{}, {"traceparent", ""}, {"traceparent", "hello"}, {"traceparent", strings.ToUpper(traceParent)},
		{"tracestate", "congo=1"},
	} {
		require.Nil(t, s.traceShown(s.accept(push(), header...)), "%s", header)
	}
	for _, trace := range s.traces(tasks.Swrve.ImmediateQueue()) {
		require.Equal(t, tracing.Trace{}, trace)
	}
}

func TestTheFirstTraceOfAKeyStays(t *testing.T) {
	t.Parallel()
	s := startService(t)
	id := s.accept(push(), "Idempotency-Key", "a", "traceparent", traceParent)
	require.Equal(t, id, s.accept(push(), "Idempotency-Key", "a", "traceparent", strings.Replace(traceParent, "4bf9", "5bf9", 1)))
	require.Equal(t, traceText, s.traceShown(id))
}

func TestABatchBelongsToTheTraceOfItsRequest(t *testing.T) {
	t.Parallel()
	s := startService(t)
	got := s.send(http.MethodPost, "/push/batch", strings.NewReader("["+push()+","+push("message", `"another"`)+"]"),
		"Content-Type", "application/json", "traceparent", traceParent)
	require.Equal(t, http.StatusOK, got.status, got.body)
	require.Equal(t, []tracing.Trace{{Parent: traceParent}, {Parent: traceParent}}, s.traces(tasks.Swrve.ImmediateQueue()))
}

func TestANotificationHasItsOwnIDInTheTraceOfItsRequest(t *testing.T) {
	t.Parallel()
	s := startNotifications(t)
	require.Equal(t, http.StatusAccepted, s.notify(notification, "traceparent", traceParent).status)
	require.Equal(t, []tracing.Trace{{ID: "a3f5b9c1-2d4e-4a5f-9b2c-7e8d9f1a2b3c", Parent: traceParent}}, s.traces(tasks.FCM.ImmediateQueue()))
}
