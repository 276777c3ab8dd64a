package tasks

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	"pushq/internal/tracing"
)

const traceParent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func newTracedPush() Push {
	push := newPush()
	push.Trace = tracing.New("order-4711", traceParent, "congo=1")
	return push
}

func TestATraceIsInTheHeadersOfTheTask(t *testing.T) {
	t.Parallel()
	for name, trace := range map[string]tracing.Trace{
		"a parent":            tracing.New("", traceParent, ""),
		"an id":               tracing.New("order-4711", "", ""),
		"everything there is": tracing.New("order-4711", traceParent, "congo=1"),
	} {
		push := newPush()
		plain, err := newMessage(Swrve, push, testRetention)
		require.NoError(t, err)
		push.Trace = trace
		traced, err := newMessage(Swrve, push, testRetention)
		require.NoError(t, err)
		require.Equal(t, plain, traced[:len(plain)], name)
		t.Logf("%s: %d bytes more than %d", name, len(traced)-len(plain), len(plain))

		d := newDesk(t)
		d.accept(push)
		ours, err := d.inspector.GetTaskInfo(Swrve.ImmediateQueue(), push.ID)
		require.NoError(t, err)
		require.Equal(t, trace, TraceOf(ours.Headers), name)
		require.Equal(t, push, d.get(push.ID).Push, "before its first attempt")

		task, err := newTask(Swrve, push, testRetention)
		require.NoError(t, err)
		require.Equal(t, ours.Headers, task.Headers(), name)
		require.Equal(t, ours.Payload, task.Payload(), name)
	}
}

func TestHeadersOfOthersAreReadWithCare(t *testing.T) {
	t.Parallel()
	require.Equal(t, tracing.Trace{}, TraceOf(nil))
	require.Equal(t, tracing.Trace{}, TraceOf(map[string]string{"colour": "red"}))
	require.Equal(t, tracing.Trace{ID: "a"}, TraceOf(map[string]string{"trace_id": "a", "traceparent": "hello", "tracestate": "b=1"}))
}

// The record outlives the task, and knows the trace whatever has become of the push.
func TestTheRecordHasTheTrace(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	sent, cancelled, plain := newTracedPush(), newTracedPush(), newPush()
	for _, push := range []Push{sent, cancelled, plain} {
		d.accept(push)
	}
	d.attempt(sent, AttemptOK, Sent)
	d.attempt(plain, AttemptOK, Sent)
	require.NoError(t, d.operator(time.Now()).Cancel(t.Context(), cancelled.ID))
	for _, push := range []Push{sent, cancelled, plain} {
		require.NoError(t, d.client.Del(t.Context(), asynqTaskKey(Swrve.ImmediateQueue(), push.ID)).Err())
		require.Equal(t, push, d.get(push.ID).Push)
	}
	begun := newStory(t, d.client)
	begun.push = newTracedPush()
	begun.begun("a")
	require.Equal(t, begun.push, begun.record().Push)

	payload, err := plain.encode()
	require.NoError(t, err)
	stored, err := d.client.Get(t.Context(), Swrve.RecordKey(plain.ID)).Result()
	require.NoError(t, err)
	require.Contains(t, stored, `{"push":`+string(payload)+`,`, "a push without a trace costs nothing")
}

func TestANotificationHasTheTraceOfItsSender(t *testing.T) {
	t.Parallel()
	notification := Notification{TraceID: "order-4711", Trace: tracing.New("", traceParent, "congo=1")}
	push := newNotificationPush(notification, json.RawMessage(`{}`), "")
	require.Equal(t, tracing.New("order-4711", traceParent, "congo=1"), push.Trace)
	require.Equal(t, "order-4711", push.Trace.Name())
}

// What asynq does with a task keeps its headers.
func TestATraceOutlivesARetry(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	push := newTracedPush()
	push.Message = "attempt failed: SWRVE 503"
	d.accept(push)
	d.runUntil(push, Retry)
	require.NoError(t, d.operator(time.Now()).Retry(t.Context(), push.ID))
	task, err := d.inspector.GetTaskInfo(Swrve.ImmediateQueue(), push.ID)
	require.NoError(t, err)
	require.Equal(t, asynq.TaskStatePending, task.State)
	require.Equal(t, push.Trace, TraceOf(task.Headers))
}

func TestARetryLeavesTheTraceInTheRecord(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	push := newTracedPush()
	d.accept(push)
	d.attempt(push, AttemptError, Failed)
	require.NoError(t, d.inspector.ArchiveTask(Swrve.ImmediateQueue(), push.ID))
	require.NoError(t, d.operator(time.Now()).Retry(t.Context(), push.ID))
	record, err := d.records.Get(t.Context(), push.ID)
	require.NoError(t, err)
	require.Empty(t, record.End)
	require.Equal(t, push, record.Push, "before its next attempt")
}
