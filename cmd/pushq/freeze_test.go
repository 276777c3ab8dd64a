package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/swrvesim"
	"pushq/internal/testenv"
	"pushq/tasks"
)

// The worker stands still for longer than its request timeout, while the
// answers arrive: it must read them when it goes on, and send nothing again.
func TestFrozenWorkerSendsNothingTwice(t *testing.T) {
	t.Parallel()
	const pushes = 20
	w := newWorld(t, swrvesim.Config{Latency: swrvesim.FixedLatency(time.Second)})
	api := w.startReady("api")
	settings := []string{"SWRVE_TIMEOUTMILLIS=3000", "SWRVE_AVERAGEPROCESSINGMILLIS=2000"}
	worker := w.startReady("worker", settings...)
	ids := acceptMany(t, api, pushes, "user-")
	testenv.Eventually(t, 20*time.Second, "all sends to have arrived", func() bool { return w.swrve.Stats().Requests == pushes })
	worker.Freeze()
	// The frozen worker is taken for dead, and its pushes are handed to another.
	expireLeases(t, w.redis.Client(t))
	other := w.startReady("worker", settings...)
	other.WaitForLine("took pushes back", 20*time.Second)
	testenv.Eventually(t, 20*time.Second, "all answers to have been given", func() bool {
		ledger := w.swrve.Ledger()
		for _, request := range ledger {
			if request.Status != 200 || time.Since(request.ArrivedAt) < 6*time.Second {
				return false
			}
		}
		return len(ledger) == pushes
	})
	worker.Thaw()

	for _, push := range waitForAll(t, api, ids, tasks.Sent, 60*time.Second) {
		require.Len(t, push.Attempts, 1)
	}
	require.Equal(t, pushes, w.swrve.Stats().Requests)
}
