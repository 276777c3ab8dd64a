package faults

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/swrvesim"
	"pushq/internal/testenv"
)

// slowest is the longest that the provider took in the original load test.
const slowest = 7700 * time.Millisecond

func TestTermUnderSlowSends(t *testing.T) {
	t.Parallel()
	const pushes = 200
	w := newWorld(t, swrvesim.Config{Latency: swrvesim.FixedLatency(slowest)})
	api := w.start("api")
	// A slot every 100 ms: most pushes wait in memory when the signal comes.
	worker := w.start("worker", "SWRVE_DELAYMILLIS=100", "SWRVE_CONCURRENCY=250")
	callers := newCallers(t)
	callers.patient = true
	callers.post(pushes, api.URL())
	testenv.Eventually(t, 30*time.Second, "sends to be in flight", func() bool { return w.Swrve.Stats().InFlight >= 50 })
	worker.Terminate()
	require.Zero(t, worker.Wait(30*time.Second))

	account := w.reckon(callers, api)
	require.NotZero(t, account.sent)
	require.NotZero(t, account.queued)
	require.Equal(t, pushes, account.sent+account.queued)
	require.Len(t, w.Swrve.Ledger(), account.sent, "what was sent was recorded")

	w.start("worker")
	w.waitUntilEnded(callers, api, time.Minute)
	account = w.reckon(callers, api)
	require.Equal(t, pushes, account.sent)
	requireNothingMarked(t, account)
}

func TestRollingRestartUnderLoad(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{Latency: swrvesim.FixedLatency(slowest)})
	api := w.start("api")
	workers := []*testenv.Process{w.start("worker"), w.start("worker")}
	callers := newCallers(t)
	callers.patient = true
	stop := callers.postEvery(length(50*time.Millisecond, 20*time.Millisecond), api.URL())
	began := time.Now()
	for rolled := false; !rolled || time.Since(began) < length(0, 3*time.Minute); rolled = true {
		for place, worker := range workers {
			testenv.Eventually(t, time.Minute, "the worker to have sends in flight", func() bool {
				return testenv.ScrapeURL(t, worker.URL()+"/metrics").Series[`pushq_sending_in_flight{channel="swrve"}`] >= 20
			})
			worker.Terminate()
			require.Zero(t, worker.Wait(30*time.Second))
			workers[place] = w.start("worker")
		}
	}
	stop()

	w.waitUntilEnded(callers, api, time.Minute)
	account := w.reckon(callers, api)
	require.Equal(t, account.accepted, account.sent)
	require.Zero(t, account.refused+account.unknown)
	// At full length nothing else runs that keeps Redis from answering in time.
	require.LessOrEqual(t, callers.repeated(), several(20, 0))
	requireNothingMarked(t, account)
}

// requireNothingMarked: a process that was asked to stop leaves no send behind
// of which nobody knows the outcome.
func requireNothingMarked(t *testing.T, account account) {
	t.Helper()
	require.Zero(t, account.duplicates)
	for id, push := range account.pushes {
		for _, attempt := range push.Attempts {
			require.False(t, attempt.MaybeDelivered, id)
		}
	}
}
