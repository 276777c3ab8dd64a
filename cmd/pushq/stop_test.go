package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/swrvesim"
	"pushq/internal/testenv"
	"pushq/tasks"
)

func TestTermFinishesSendsAndPutsWaitingPushesBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{Latency: swrvesim.FixedLatency(3 * time.Second)})
	api := w.startReady("api")
	// A slot every half second: most pushes wait in memory when the signal comes.
	worker := w.startReady("worker", "SWRVE_DELAYMILLIS=500", "SWRVE_CONCURRENCY=50")
	ids := acceptMany(t, api, 20, "user-")
	testenv.Eventually(t, 20*time.Second, "two sends to be in flight", func() bool { return w.swrve.Stats().InFlight >= 2 })
	worker.Terminate()
	require.Zero(t, worker.Wait(30*time.Second))

	count := make(map[tasks.State]int)
	for _, id := range ids {
		push := lookUp(t, api, id)
		count[push.Status]++
		switch push.Status {
		case tasks.Sent:
			require.Len(t, push.Attempts, 1)
		case tasks.Pending:
			for _, attempt := range push.Attempts { // withdrawn, if any
				require.False(t, attempt.MaybeDelivered)
			}
		default:
			t.Errorf("push %s is %s", id, push.Status)
		}
	}
	require.NotZero(t, count[tasks.Sent])
	require.NotZero(t, count[tasks.Pending])
	require.Equal(t, len(ids), count[tasks.Sent]+count[tasks.Pending])
	require.Equal(t, count[tasks.Sent], len(w.swrve.Ledger()), "what was sent was recorded")

	w.startReady("worker")
	waitForAll(t, api, ids, tasks.Sent, 60*time.Second)
	for user, times := range w.deliveries() {
		require.Equal(t, 1, times, user)
	}
}

func TestSecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	serve := w.startReady("serve")
	accept(t, serve, "hang-")
	testenv.Eventually(t, 20*time.Second, "the send to be under way", func() bool { return len(w.swrve.Ledger()) == 1 })
	serve.Terminate()
	serve.WaitForLine("stopping", 10*time.Second)
	time.Sleep(sameRequest) // until then it would be the first signal again
	serve.Interrupt()
	require.Equal(t, 130, serve.Wait(5*time.Second))
}

// As timeout(1) signals a process and its group.
func TestTwoSignalsAtOnceAreOneRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{Latency: swrvesim.FixedLatency(2 * time.Second)})
	serve := w.startReady("serve")
	accept(t, serve, "user")
	testenv.Eventually(t, 20*time.Second, "the send to be under way", func() bool { return len(w.swrve.Ledger()) == 1 })
	serve.Terminate()
	serve.Interrupt()
	require.Zero(t, serve.Wait(20*time.Second))
}

func TestTermStopsAccepting(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{Latency: swrvesim.FixedLatency(2 * time.Second)})
	serve := w.startReady("serve")
	id := accept(t, serve, "user")
	testenv.Eventually(t, 20*time.Second, "the send to be under way", func() bool { return len(w.swrve.Ledger()) == 1 })
	serve.Terminate()
	testenv.Eventually(t, 10*time.Second, "new requests to be turned away", func() bool {
		_, err := client.Get(serve.URL() + "/health/live")
		return err != nil
	})
	require.Zero(t, serve.Wait(20*time.Second))

	api := w.startReady("api")
	require.Equal(t, tasks.Sent, lookUp(t, api, id).Status)
}
