package faults

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/swrvesim"
	"pushq/internal/testenv"
	"pushq/tasks"
)

// The pushes of a dead worker are SENT by another one in less than recoveryBound
// (docs/operations.md, "When a worker dies"). A test waits longer, to say by how
// much it was missed.
const (
	recoveryBound   = 60 * time.Second
	recoveryTimeout = 150 * time.Second
)

func TestKilledWorkerWithTwoHundredSendsInFlight(t *testing.T) {
	t.Parallel()
	const pushes = 200
	w := newWorld(t, swrvesim.Config{Latency: swrvesim.FixedLatency(6 * time.Second)})
	api := w.start("api")
	callers := newCallers(t)
	callers.patient = true
	callers.post(pushes, api.URL()) // before: on a busy machine it takes longer than the first answer
	victim := w.start("worker", "SWRVE_DELAYMILLIS=4", "SWRVE_CONCURRENCY=200")
	testenv.Eventually(t, 30*time.Second, "all sends to be in flight", func() bool { return w.Swrve.Stats().InFlight == pushes })
	victim.Kill()
	killed := time.Now()
	w.start("worker", "SWRVE_DELAYMILLIS=4", "SWRVE_CONCURRENCY=200")

	w.waitUntilEnded(callers, api, recoveryTimeout)
	recovery := time.Since(killed)
	t.Logf("the last one was SENT %.1f s after the kill", recovery.Seconds())
	require.Less(t, recovery, length(100*time.Second, recoveryBound), "at full length nothing else runs")
	account := w.reckon(callers, api)
	require.Equal(t, pushes, account.sent)
	require.LessOrEqual(t, account.duplicates, pushes)
	for id, push := range account.pushes {
		require.Len(t, push.Attempts, 2, id)
		require.True(t, push.Attempts[0].MaybeDelivered, "a send cut off by the kill may have been delivered")
		require.Equal(t, tasks.AttemptError, push.Attempts[0].Status)
		require.Equal(t, tasks.ErrorOther, push.Attempts[0].ErrorType)
		require.False(t, push.Attempts[1].MaybeDelivered)
	}
}

func TestAPushWhoseWorkerAlwaysDiesIsGivenUp(t *testing.T) {
	t.Parallel()
	const attempts = 3
	w := newWorld(t, swrvesim.Config{})
	settings := []string{"SWRVE_TIMEOUTMILLIS=1000", "SWRVE_AVERAGEPROCESSINGMILLIS=1000", "SWRVE_CONCURRENCY=2"}
	api := w.start("api")
	callers := newCallers(t)
	callers.patient = true
	callers.postAs("hang-victim", api.URL())
	for attempt := 1; attempt <= attempts; attempt++ {
		worker := w.start("worker", settings...)
		testenv.Eventually(t, time.Minute, "the send to be under way", func() bool {
			return len(w.Swrve.Ledger()) == attempt
		})
		worker.Kill()
		expireLeases(t, w.Redis.Client(t))
		waitUntilInterrupted(t, callers, api)
	}
	w.start("worker", settings...)

	w.waitUntilEnded(callers, api, time.Minute)
	account := w.reckon(callers, api)
	require.Equal(t, 1, account.givenUp)
	for _, push := range account.pushes {
		require.Len(t, push.Attempts, attempts)
		for _, attempt := range push.Attempts {
			require.True(t, attempt.MaybeDelivered)
		}
	}
	require.Len(t, w.Swrve.Ledger(), attempts, "no further request")
}

// waitUntilInterrupted waits until the last attempt in process counts as
// interrupted: the provider's timeout of a second, one for a frozen process, and ten more.
func waitUntilInterrupted(t *testing.T, c *callers, api *testenv.Process) {
	t.Helper()
	pushes := c.readInTheEnd(t, api)
	for _, push := range pushes {
		started := *push.Attempts[len(push.Attempts)-1].StartedAt
		testenv.Eventually(t, 30*time.Second, "the attempt to be old enough", func() bool {
			return time.Since(started) > 12500*time.Millisecond
		})
	}
}
