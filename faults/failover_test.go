package faults

import (
	"net"
	"strings"
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
	const interval, before, after = 5 * time.Millisecond, 4 * time.Second, 2 * time.Second
	const unreplicated = 2 * time.Second // far less on a machine at rest
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
	testenv.Eventually(t, 20*time.Second, "the sentinels to choose the replica", func() bool { return sentinel.Master() != master })
	chosen := time.Now()
	testenv.Eventually(t, 20*time.Second, "pushes to be accepted again", func() bool { return acceptedAfter(callers, chosen) })
	time.Sleep(after)
	stop()

	refused := lastRefusal(callers)
	outage := refused.Sub(killed)
	t.Logf("pushes were refused for %.1f s", outage.Seconds())
	require.Less(t, outage, time.Minute)
	require.True(t, acceptedAfter(callers, refused), "pushes are accepted again without a restart")

	w.waitUntilEnded(callers, api, recoveryTimeout) // a push in the hands of the dead master's client waits for its lease
	account := w.count(callers, api)
	require.Equal(t, account.accepted, account.sent+len(account.lost))
	for _, lost := range account.lost {
		require.WithinDuration(t, killed, lost.answered, unreplicated, "%s is lost, and Redis had time to replicate it", lost.id)
	}
	require.LessOrEqual(t, account.duplicates, 100, "no more than were being sent when the master died")
	worker.WaitReady()
}

// The address leads to another master, and what is open stays with the former one,
// which goes on as a replica: it answers reads, and refuses writes in its own words
// or in those of a proxy.
func TestFailoverBehindOneAddress(t *testing.T) {
	t.Parallel()
	for _, failover := range []struct {
		name, refusal string
		linked        bool // the former master hears from the new one
	}{
		{"in the words of redis", "READONLY You can't write against a read only replica.", true},
		{"in the words of a proxy", "ERR operation not permitted: this instance is in read only mode", false},
		{"in no known words", "upstream failure", false},
	} {
		t.Run(failover.name, func(t *testing.T) {
			t.Parallel()
			former, next := testenv.StartRedis(t, "--replica-serve-stale-data", "no"), testenv.StartRedis(t)
			replicate(t, next, former)
			proxy := testenv.NewProxy(t, former.Addr())
			proxy.Reword("READONLY", failover.refusal)
			w := newWorldAt(t, swrvesim.Config{Latency: swrvesim.FixedLatency(50 * time.Millisecond)}, proxy.URL())
			api := w.start("api")
			worker := w.start("worker", "SWRVE_DELAYMILLIS=2")
			idle := w.start("worker", "SWRVE_DELAYMILLIS=2")
			callers := newCallers(t)
			stop := callers.postEvery(5*time.Millisecond, api.URL())
			testenv.Eventually(t, 20*time.Second, "pushes to be sent", func() bool { return w.Swrve.Stats().Requests >= 300 })

			handOver(t, former, next)
			if !failover.linked {
				host, port, err := net.SplitHostPort(testenv.FreeAddress(t))
				require.NoError(t, err)
				require.NoError(t, former.Client(t).Do(t.Context(), "replicaof", host, port).Err())
			}
			proxy.LeadTo(next.Addr())
			switched := time.Now()
			testenv.Eventually(t, 30*time.Second, "pushes to be accepted", func() bool { return acceptedAfter(callers, switched) })
			time.Sleep(2 * time.Second) // what is measured is when the last one was refused
			stop()
			refused := lastRefusal(callers)
			t.Logf("pushes were refused for %.1f s after the address led to the new master", refused.Sub(switched).Seconds())
			require.Less(t, refused.Sub(switched), 10*time.Second, "3 s on a machine at rest")

			// Pushes that only the new master knows, and, if it is linked, its replica.
			onlyThere := newCallers(t)
			for range 7 {
				onlyThere.postOne(api.URL(), `"cronExpression":"0 0 0 1 1 ?"`)
			}
			for _, process := range []*testenv.Process{worker, idle} {
				testenv.Eventually(t, 20*time.Second, "the worker to tell the new master's numbers", func() bool {
					return testenv.ScrapeURL(t, process.URL()+"/metrics").Series[`pushq_queue_tasks{queue="swrve-window",state="scheduled"}`] == 7
				})
			}
			w.waitUntilEnded(callers, api, recoveryTimeout)
			account := w.count(callers, api)
			require.Empty(t, account.lost, "the new master had everything")
			require.LessOrEqual(t, account.duplicates, 25, "no more than were being sent at that moment")
		})
	}
}

func replicate(t *testing.T, replica, master *testenv.Redis) {
	t.Helper()
	host, port, err := net.SplitHostPort(master.Addr())
	require.NoError(t, err)
	require.NoError(t, replica.Client(t).Do(t.Context(), "replicaof", host, port).Err())
	waitForReplication(t, replica, "master_link_status:up")
}

// handOver makes the replica the master without the loss of a write.
func handOver(t *testing.T, master, replica *testenv.Redis) {
	t.Helper()
	require.NoError(t, master.Client(t).Do(t.Context(), "failover").Err())
	waitForReplication(t, replica, "role:master")
	waitForReplication(t, master, "role:slave")
	waitForReplication(t, master, "master_link_status:up")
}

func waitForReplication(t *testing.T, server *testenv.Redis, line string) {
	t.Helper()
	client := server.Client(t)
	testenv.Eventually(t, 20*time.Second, line, func() bool {
		return strings.Contains(client.Info(t.Context(), "replication").Val(), line)
	})
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
