package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/swrvesim"
	"pushq/tasks"
)

// One worker is told to wait; the others must hear of it before their next
// request, slots that they hold already included.
func TestRetryAfterBrakesEveryWorker(t *testing.T) {
	t.Parallel()
	const pause = 3 * time.Second
	w := newWorld(t, swrvesim.Config{})
	api := w.startReady("api")
	settings := []string{"SWRVE_DELAYMILLIS=150", "SWRVE_CONCURRENCY=8"}
	w.startReady("worker", settings...)
	w.startReady("worker", settings...)
	ids := acceptMany(t, api, 20, "user-")
	ids = append(ids, accept(t, api, "429after3-"))
	ids = append(ids, acceptMany(t, api, 20, "later-")...)

	waitForAll(t, api, ids, tasks.Sent, 90*time.Second)
	ledger := w.swrve.Ledger()
	braked := -1
	for place, request := range ledger {
		if request.Status == 429 {
			require.Negative(t, braked, "one 429")
			braked = place
		}
	}
	require.GreaterOrEqual(t, braked, 0)
	// What started before the answer was read is no fault.
	const answerRead = 100 * time.Millisecond
	for _, request := range ledger[braked+1:] {
		after := request.ArrivedAt.Sub(ledger[braked].ArrivedAt)
		require.True(t, after < answerRead || after > pause-answerRead, fmt.Sprintf("a request %s after the 429", after))
	}
	for user, times := range w.deliveries() {
		require.Equal(t, 1, times, user)
	}
	require.Len(t, lookUp(t, api, ids[20]).Attempts, 2, "a 429 counts as an attempt")
}
