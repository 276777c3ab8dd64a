package swrvesim

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLatencyChangesForLaterArrivals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		simulator := New(Config{Latency: FixedLatency(time.Second)})
		defer func() { _ = simulator.Close() }()
		took := make(chan time.Duration, 1)
		go func() {
			began := time.Now()
			record(simulator, "ann")
			took <- time.Since(began)
		}()
		synctest.Wait() // it has arrived
		simulator.SetLatency(FixedLatency(4 * time.Second))
		began := time.Now()
		record(simulator, "bob")
		require.Equal(t, 4*time.Second, time.Since(began))
		require.Equal(t, time.Second, <-took)
	})
}

func TestAnOutcomeForEverybody(t *testing.T) {
	t.Parallel()
	simulator := New(Config{})
	t.Cleanup(func() { _ = simulator.Close() })
	require.NoError(t, simulator.SetOutcome("429after7x2-"))
	for range 2 {
		for _, user := range []string{"ann", "bob", "503-eve"} {
			answer := record(simulator, user)
			require.Equal(t, 429, answer.Code)
			require.Equal(t, "7", answer.Header().Get("Retry-After"))
		}
	}
	require.Equal(t, 200, record(simulator, "ann").Code, "its two are over")
	require.NoError(t, simulator.SetOutcome(""))
	require.Equal(t, 200, record(simulator, "bob").Code)
	require.Equal(t, 503, record(simulator, "503-eve").Code)
	require.Equal(t, 2, simulator.Stats().Delivered)

	for _, mistake := range []string{"down", "503", "503-ann", "-"} {
		require.Error(t, simulator.SetOutcome(mistake), mistake)
	}
	require.Equal(t, 200, record(simulator, "cat").Code)
}
