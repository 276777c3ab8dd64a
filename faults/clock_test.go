package faults

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/swrvesim"
	"pushq/internal/testenv"
)

// asynq's leases and schedules use the worker's own clock: one that is off
// takes nothing until it is right, and leaves everything to the others.
func TestWorkerWhoseClockIsTenMinutesOff(t *testing.T) {
	t.Parallel()
	for _, fault := range []struct {
		name  string
		flags []string
		sends bool // before its clock goes off
	}{
		{"ahead", []string{"--test-clock-shift=10m"}, false},
		{"behind", []string{"--test-clock-shift=-10m"}, false},
		{"set while sending", []string{"--test-clock-shift=10m", "--test-clock-shift-after=10s"}, true},
	} {
		t.Run(fault.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, swrvesim.Config{Latency: swrvesim.FixedLatency(5 * time.Second)})
			api := w.start("api")
			callers := newCallers(t)
			callers.patient = true
			callers.post(10, api.URL())
			stop := callers.postEvery(100*time.Millisecond, api.URL())
			worker := testenv.StartPushq(t, append([]string{"worker", "--listen", "127.0.0.1:0"}, fault.flags...), w.Environment()...)

			worker.WaitForLine("this host's clock is off", time.Minute)
			testenv.Eventually(t, 30*time.Second, "its sends to end", func() bool { return w.Swrve.Stats().InFlight == 0 })
			requests := w.Swrve.Stats().Requests
			require.Equal(t, fault.sends, requests > 0)
			time.Sleep(length(6*time.Second, time.Minute)) // its clock stays wrong
			response, err := http.Get(worker.URL() + "/health/ready")
			require.NoError(t, err)
			_ = response.Body.Close()
			require.Equal(t, http.StatusServiceUnavailable, response.StatusCode)
			require.Equal(t, requests, w.Swrve.Stats().Requests, "it takes nothing")

			w.start("worker")
			stop()
			w.waitUntilEnded(callers, api, time.Minute)
			account := w.reckon(callers, api)
			require.Equal(t, account.accepted, account.sent)
			require.Zero(t, account.duplicates)
			require.Zero(t, account.refused+account.unknown)
		})
	}
}
