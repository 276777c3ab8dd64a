package main

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
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

func TestKilledWorkerWithFiftySendsInFlight(t *testing.T) {
	t.Parallel()
	const pushes = 50
	w := newWorld(t, swrvesim.Config{Latency: swrvesim.FixedLatency(5 * time.Second)})
	api := w.startReady("api")
	victim := w.startReady("worker", "SWRVE_DELAYMILLIS=1")
	ids := acceptMany(t, api, pushes, "user-")
	testenv.Eventually(t, 30*time.Second, "all sends to be in flight", func() bool { return w.swrve.Stats().InFlight == pushes })
	victim.Kill()
	killed := time.Now()
	w.startReady("worker", "SWRVE_DELAYMILLIS=1")

	sent := waitForAll(t, api, ids, tasks.Sent, recoveryTimeout)
	recovery := time.Since(killed)
	for _, push := range sent {
		require.Len(t, push.Attempts, 2)
		require.True(t, push.Attempts[0].MaybeDelivered, "a send cut off by the kill may have been delivered")
		require.Equal(t, "ERROR", push.Attempts[0].Status)
		require.Equal(t, "OTHER", *push.Attempts[0].ErrorType)
		require.False(t, push.Attempts[1].MaybeDelivered)
	}
	duplicates := 0
	for user, count := range w.deliveries() {
		require.LessOrEqual(t, count, 2, user)
		duplicates += count - 1
	}
	require.Len(t, w.deliveries(), pushes, "nothing is lost")
	t.Logf("%d pushes, %d delivered twice, each with an attempt marked maybeDelivered; %.1f s from the kill to the last SENT",
		pushes, duplicates, recovery.Seconds())
	require.Less(t, recovery, recoveryBound)
}

func TestAPushWhoseWorkerAlwaysDiesIsGivenUp(t *testing.T) {
	t.Parallel()
	const attempts = 3
	w := newWorld(t, swrvesim.Config{})
	settings := []string{"SWRVE_TIMEOUTMILLIS=1000", "SWRVE_AVERAGEPROCESSINGMILLIS=1000", "SWRVE_CONCURRENCY=2"}
	api := w.startReady("api")
	id := accept(t, api, "hang-victim")
	for attempt := 1; attempt <= attempts; attempt++ {
		worker := w.startReady("worker", settings...)
		testenv.Eventually(t, 60*time.Second, "the send to be under way", func() bool {
			return len(w.swrve.Ledger()) == attempt
		})
		worker.Kill()
		expireLeases(t, w.redis.Client(t))
		waitUntilInterrupted(t, api, id)
	}
	w.startReady("worker", settings...)

	push := waitFor(t, api, id, tasks.GivenUp, 60*time.Second)
	require.Len(t, push.Attempts, attempts)
	for _, attempt := range push.Attempts {
		require.True(t, attempt.MaybeDelivered)
	}
	require.Len(t, w.swrve.Ledger(), attempts, "no further request")
}

// expireLeases has the dead worker's pushes taken back at the next look, which is
// at a worker's start and then every second, instead of half a minute later.
func expireLeases(t *testing.T, client *redis.Client) {
	t.Helper()
	ctx := context.Background()
	for _, queue := range tasks.Swrve.Queues() {
		key := "asynq:{" + queue + "}:lease"
		members, err := client.ZRange(ctx, key, 0, -1).Result()
		require.NoError(t, err)
		for _, member := range members {
			past := float64(time.Now().Add(-time.Hour).Unix())
			require.NoError(t, client.ZAdd(ctx, key, redis.Z{Score: past, Member: member}).Err())
		}
	}
}

// waitUntilInterrupted waits until the last attempt in process counts as
// interrupted: the provider's timeout of a second, one for a frozen process, and ten more.
func waitUntilInterrupted(t *testing.T, api *testenv.Process, id string) {
	t.Helper()
	push := lookUp(t, api, id)
	started := *push.Attempts[len(push.Attempts)-1].StartedAt
	testenv.Eventually(t, 30*time.Second, "the attempt to be old enough", func() bool {
		return time.Since(started) > 12500*time.Millisecond
	})
}
