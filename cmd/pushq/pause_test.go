package main

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	"pushq/internal/swrvesim"
	"pushq/internal/testenv"
	"pushq/tasks"
)

// operate runs a command of the night against the world's Redis.
func (w *world) operate(arguments ...string) (string, error) {
	w.t.Helper()
	return w.operateWith("", arguments...)
}

func readHealth(t *testing.T, process *testenv.Process) (status int, report map[string]any) {
	t.Helper()
	response, err := http.Get(process.URL() + "/health")
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	require.NoError(t, json.NewDecoder(response.Body).Decode(&report))
	return response.StatusCode, report
}

func TestAPauseStopsSendingAndLosesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{Latency: swrvesim.FixedLatency(6 * time.Second)})
	serve := w.startReady("serve")
	queues := func() map[string]any {
		status, report := readHealth(t, serve)
		require.Equal(t, http.StatusOK, status)
		require.Equal(t, "healthy", report["status"])
		return report["checks"].(map[string]any)["queues"].(map[string]any)
	}
	require.Equal(t, "healthy", queues()["status"])
	require.NotContains(t, queues(), "paused")

	inFlight := accept(t, serve, "in-flight")
	testenv.Eventually(t, 20*time.Second, "the first push to be on its way", func() bool { return len(w.Swrve.Ledger()) == 1 })
	output, err := w.operate("pause")
	require.NoError(t, err)
	require.Contains(t, output, "queue swrve paused: 0 ready, 0 scheduled, 0 to be tried again, 1 in memory\n  those in memory are being finished\n")
	require.Contains(t, output, "queue swrve-window paused: 0 ready")

	waiting := acceptMany(t, serve, 5, "waiting-")
	require.Equal(t, "paused", queues()["status"])
	require.Equal(t, []any{"swrve", "swrve-window"}, queues()["paused"])
	serve.WaitReady()
	waitFor(t, serve, inFlight, tasks.Sent, 20*time.Second)
	output, err = w.operate("pause")
	require.NoError(t, err, "again is no error")
	require.Contains(t, output, "queue swrve was paused already: 5 ready")
	for _, id := range waiting {
		require.Equal(t, tasks.Pending, lookUp(t, serve, id).Status)
	}
	require.Len(t, w.Swrve.Ledger(), 1)

	output, err = w.operate("resume")
	require.NoError(t, err)
	require.Contains(t, output, "queue swrve resumed: ")
	waitForAll(t, serve, waiting, tasks.Sent, 20*time.Second)
	require.Equal(t, "healthy", queues()["status"])
	output, err = w.operate("resume")
	require.NoError(t, err, "again is no error")
	require.Contains(t, output, "queue swrve was not paused: 0 ready")
	for user, times := range w.Deliveries() {
		require.Equal(t, 1, times, user)
	}
	require.Len(t, w.Deliveries(), 6)
}

// asynq's own tools and pushq's mean the same pause.
func TestAPauseOfAsynqsToolsIsSeenAndEnded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	serve := w.startReady("serve")
	inspector := asynq.NewInspectorFromRedisClient(w.Redis.Client(t))
	require.NoError(t, inspector.PauseQueue("swrve"))
	id := accept(t, serve, "user")
	_, report := readHealth(t, serve)
	require.Equal(t, []any{"swrve"}, report["checks"].(map[string]any)["queues"].(map[string]any)["paused"])
	output, err := w.operate("resume")
	require.NoError(t, err)
	require.Contains(t, output, "queue swrve resumed: 1 ready")
	require.Contains(t, output, "queue swrve-window was not paused")
	waitFor(t, serve, id, tasks.Sent, 20*time.Second)

	_, err = w.operate("pause")
	require.NoError(t, err)
	require.NoError(t, inspector.UnpauseQueue("swrve"))
	require.NoError(t, inspector.UnpauseQueue("swrve-window"))
	waitFor(t, serve, accept(t, serve, "another"), tasks.Sent, 20*time.Second)
}
