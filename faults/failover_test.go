package faults

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/swrvesim"
	"pushq/internal/testenv"
)

// The master dies under load. What was accepted is delivered by the time the
// sentinels have chosen another, apart from what Redis itself may lose: writes
// of its last moment that the replica has not got.
func TestSentinelFailoverUnderLoad(t *testing.T) {
	t.Parallel()
	const interval, before, after = 5 * time.Millisecond, 4 * time.Second, 8 * time.Second
	const unreplicated = 100 * time.Millisecond
	sentinel := testenv.StartSentinel(t)
	w := newWorldAt(t, swrvesim.Config{Latency: swrvesim.FixedLatency(50 * time.Millisecond)}, sentinel.URL())
	api := w.start("api")
	worker := w.start("worker", "SWRVE_DELAYMILLIS=2")
	master := sentinel.Master()

	callers := newCallers(t)
	stop := callers.postEvery(interval, api.URL())
	time.Sleep(before) // what is measured is a rate over time
	killed := time.Now()
	master.Stop()
	time.Sleep(after)
	stop()
	require.NotSame(t, master, sentinel.Master(), "the sentinels have chosen the replica")

	refused := lastRefusal(callers)
	outage := refused.Sub(killed)
	t.Logf("pushes were refused for %.1f s", outage.Seconds())
	require.Less(t, outage, 7*time.Second)
	require.True(t, acceptedAfter(callers, refused), "pushes are accepted again without a restart")

	w.waitUntilEnded(callers, api, recoveryTimeout) // a push in the hands of the dead master's client waits for its lease
	account := w.count(callers, api)
	require.Equal(t, account.accepted, account.sent+len(account.lost))
	for _, lost := range account.lost {
		require.WithinDuration(t, killed, lost.answered, unreplicated, "%s is lost, and Redis had time to replicate it", lost.id)
	}
	require.LessOrEqual(t, account.duplicates, 25, "no more than were being sent when the master died")
	worker.WaitReady()
}

// lastRefusal is when a push was last not accepted.
func lastRefusal(c *callers) time.Time {
	var last time.Time
	for _, posting := range c.all() {
		if posting.id == "" && posting.answered.After(last) {
			last = posting.answered
		}
	}
	return last
}
