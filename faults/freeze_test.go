package faults

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/swrvesim"
	"pushq/internal/testenv"
	"pushq/tasks"
)

// The worker stands still for longer than its request timeout, while the
// answers arrive and others take over: it must read them when it goes on, and
// send nothing again.
func TestFrozenWorkerSendsNothingTwice(t *testing.T) {
	t.Parallel()
	const pushes = 100
	frozenFor := length(12*time.Second, 45*time.Second)
	w := newWorld(t, swrvesim.Config{Latency: swrvesim.FixedLatency(2 * time.Second)})
	api := w.start("api")
	var settings []string
	if !*full {
		settings = []string{"SWRVE_TIMEOUTMILLIS=6000", "SWRVE_AVERAGEPROCESSINGMILLIS=2000"}
	}
	worker := w.start("worker", settings...)
	callers := newCallers(t)
	callers.patient = true
	callers.post(pushes, api.URL())
	testenv.Eventually(t, 30*time.Second, "all sends to have arrived", func() bool { return w.Swrve.Stats().Requests == pushes })
	inMidSend := callers.accepted()
	stop := callers.postEvery(50*time.Millisecond, api.URL())
	testenv.Eventually(t, 10*time.Second, "the load to be sent as well", func() bool { return w.Swrve.Stats().Requests > pushes })
	worker.Freeze()
	frozen := time.Now()
	if !*full {
		// The frozen worker is taken for dead at once.
		expireLeases(t, w.Redis.Client(t))
	}
	other := w.start("worker", settings...)
	other.WaitForLine("took pushes back", frozenFor)
	testenv.Eventually(t, frozenFor+10*time.Second, "all answers to have been given", func() bool {
		return time.Since(frozen) >= frozenFor && allAnswered(w.Swrve.Ledger()[:pushes])
	})
	worker.Thaw()
	stop()

	w.waitUntilEnded(callers, api, recoveryTimeout)
	account := w.reckon(callers, api)
	require.Equal(t, account.accepted, account.sent)
	require.Zero(t, account.duplicates)
	for _, posting := range inMidSend {
		attempts := account.pushes[posting.id].Attempts
		require.Len(t, attempts, 1, posting.id)
		require.Equal(t, tasks.AttemptOK, attempts[0].Status)
	}
}

func allAnswered(requests []swrvesim.Request) bool {
	for _, request := range requests {
		if request.Status != http.StatusOK {
			return false
		}
	}
	return true
}
