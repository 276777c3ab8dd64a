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

// asynq notices a dead worker after its lease of 30 s has been over for 30 s,
// and looks every 60 s (recoverer.go).
const recoveryTimeout = 150 * time.Second

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

// expireLeases makes asynq's recovery see the dead worker at its next look,
// which is at a server's start, instead of a minute later.
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
