package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/swrvesim"
	"pushq/internal/testenv"
	"pushq/tasks"
)

// A revoked key ends every push, as the service before pushq did, but not in silence.
func TestPushesThatSwrveRefusesFailWithAnAlarm(t *testing.T) {
	t.Parallel()
	for _, status := range []string{"401", "403"} {
		t.Run(status, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, swrvesim.Config{})
			require.NoError(t, w.Swrve.SetOutcome(status+"-"))
			serve := w.startReady("serve")
			waitForAll(t, serve, acceptMany(t, serve, 5, "user-"), tasks.Failed, longPatience)
			require.EqualValues(t, 5, scrape(t, serve).Series[`pushq_alarms_total{channel="swrve"}`])
			line := serve.WaitForLine("the provider refuses pushq itself: mend the configuration", longPatience)
			require.Contains(t, line, "level=ERROR")
			require.Contains(t, line, "error_code="+status)
		})
	}
}

// With swrve.onRefused: wait they wait behind a pause, and are sent when the key is right and
// somebody resumes.
func TestPushesThatSwrveRefusesWait(t *testing.T) {
	t.Parallel()
	const pushes = 20
	w := newWorld(t, swrvesim.Config{})
	require.NoError(t, w.Swrve.SetOutcome("403-"))
	serve := w.startReady("serve", "SWRVE_ONREFUSED=wait", "SWRVE_CONCURRENCY=2", "PUSH_RETRY_MAXATTEMPTS=1")
	ids := acceptMany(t, serve, pushes, "user-")
	paused := func() bool {
		_, report := readHealth(t, serve)
		return report["checks"].(map[string]any)["queues"].(map[string]any)["status"] == "paused"
	}
	testenv.Eventually(t, longPatience, "the channel to be paused", paused)
	serve.WaitForLine("action=pause", longPatience)
	testenv.Eventually(t, longPatience, "what a worker had in hand to be put back", func() bool {
		for _, id := range ids {
			if lookUp(t, serve, id).Status == tasks.InMemory {
				return false
			}
		}
		return true
	})
	refused := len(w.Swrve.Ledger())
	require.Less(t, refused, pushes, "most were not tried at all")
	for _, id := range ids {
		require.Equal(t, tasks.Pending, lookUp(t, serve, id).Status)
	}
	output, err := w.operate("doctor")
	require.Error(t, err)
	require.Contains(t, output, "paused in queue swrve\n  pushq (the provider refuses it: SWRVE 403, push ")

	// Resumed too early, it is paused again, and nothing has ended.
	_, err = w.operate("resume")
	require.NoError(t, err)
	testenv.Eventually(t, longPatience, "another request", func() bool { return len(w.Swrve.Ledger()) > refused })
	testenv.Eventually(t, longPatience, "the channel to be paused again", paused)

	require.NoError(t, w.Swrve.SetOutcome(""))
	_, err = w.operate("resume")
	require.NoError(t, err)
	waitForAll(t, serve, ids, tasks.Sent, longPatience)
	require.Equal(t, pushes, len(w.Deliveries()))
	require.Positive(t, scrape(t, serve).Series[`pushq_alarms_total{channel="swrve"}`])
}

// A pause of an operator with an end of its own stays as it is.
func TestARefusalKeepsAPauseThatIsInForce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{Latency: swrvesim.FixedLatency(3 * time.Second)})
	require.NoError(t, w.Swrve.SetOutcome("403-"))
	serve := w.startReady("serve", "SWRVE_ONREFUSED=wait", "SWRVE_AVERAGEPROCESSINGMILLIS=1000")
	id := accept(t, serve, "ann")
	testenv.Eventually(t, longPatience, "the push to be on its way", func() bool { return len(w.Swrve.Ledger()) == 1 })
	_, err := w.operate("pause", "--for", "1h")
	require.NoError(t, err)
	testenv.Eventually(t, longPatience, "the push to be put back", func() bool { return lookUp(t, serve, id).Status == tasks.Pending })
	client := w.Redis.Client(t)
	lasts, err := client.TTL(t.Context(), "asynq:{swrve}:paused").Result()
	require.NoError(t, err)
	require.Positive(t, lasts)
}
