package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/swrvesim"
	"pushq/internal/testenv"
	"pushq/tasks"
)

func TestSecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	serve := w.startReady("serve")
	accept(t, serve, "hang-")
	testenv.Eventually(t, 20*time.Second, "the send to be under way", func() bool { return len(w.Swrve.Ledger()) == 1 })
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
	testenv.Eventually(t, 20*time.Second, "the send to be under way", func() bool { return len(w.Swrve.Ledger()) == 1 })
	serve.Terminate()
	serve.Interrupt()
	require.Zero(t, serve.Wait(20*time.Second))
}

func TestTermStopsAccepting(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{Latency: swrvesim.FixedLatency(2 * time.Second)})
	serve := w.startReady("serve")
	id := accept(t, serve, "user")
	testenv.Eventually(t, 20*time.Second, "the send to be under way", func() bool { return len(w.Swrve.Ledger()) == 1 })
	serve.Terminate()
	testenv.Eventually(t, 10*time.Second, "new requests to be turned away", func() bool {
		_, err := client.Get(serve.URL() + "/health/live")
		return err != nil
	})
	require.Zero(t, serve.Wait(20*time.Second))

	api := w.startReady("api")
	require.Equal(t, tasks.Sent, lookUp(t, api, id).Status)
}
