package handlers_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pushq/internal/swrvesim"
	"pushq/internal/tracing"
	"pushq/tasks"
)

// Every attempt carries the trace on, and says so in the log.
func TestATraceGoesThroughEveryAttempt(t *testing.T) {
	t.Parallel()
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	w := newWorld(t, swrvesim.Config{})
	w.work(workforce{})
	traced, plain := newPush("503x1-traced"), newPush("503x1-plain")
	traced.Trace = tracing.New("order-4711", parent, "")
	w.accept(traced)
	w.accept(plain)

	require.Equal(t, traced.Trace, w.await(traced.ID, tasks.Sent, 2).Push.Trace)
	requests := w.requests("503x1-traced")
	require.Len(t, requests, 2)
	for _, request := range requests {
		require.Equal(t, parent, request.TraceParent)
	}
	lines := w.loggedAttempts(traced.ID)
	require.Len(t, lines, 2)
	for _, line := range lines {
		require.Equal(t, "order-4711", line["trace_id"])
	}

	w.await(plain.ID, tasks.Sent, 2)
	for _, request := range w.requests("503x1-plain") {
		require.Empty(t, request.TraceParent)
	}
	for _, line := range w.loggedAttempts(plain.ID) {
		require.NotContains(t, line, "trace_id")
	}
}
