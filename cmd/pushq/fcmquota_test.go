package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/testenv"
	"pushq/tasks"
)

// brakesOf counts the pauses that were begun because of a 429.
func brakesOf(process *testenv.Process) int {
	return strings.Count(strings.Join(process.Stderr(), "\n"), `"the provider asks everybody to wait"`)
}

// refusals counts the attempts that were answered with a 429. One that met the brake after it
// had begun was not sent.
func refusals(push pushAnswer) (count int) {
	for _, attempt := range push.Attempts {
		if attempt.ErrorCode != nil && *attempt.ErrorCode == http.StatusTooManyRequests {
			count++
		}
	}
	return count
}

// Devices that are over their own quota hold up the others once, and whoever says that it is
// about the device does not even do that.
func TestDevicesOverTheirQuotaDoNotStopTheOthers(t *testing.T) {
	for outcome, brakes := range map[string]int{"QUOTA_EXCEEDED": 1, "429": 1, "DEVICE_QUOTA": 0} {
		t.Run(outcome, func(t *testing.T) {
			t.Parallel()
			const bad, good = 7, 40
			w := newFCMWorld(t)
			// A sixth of the default.
			pushq := w.serve("FCM_MAXRETRYAFTER=10s")
			started := time.Now()
			badIDs := notifyMany(t, pushq, outcome+"-bad", bad)
			testenv.Eventually(t, longPatience, "a 429", func() bool { return len(w.firebase.Ledger()) > 0 })
			waitForAll(t, pushq, notifyMany(t, pushq, "good", good), tasks.Sent, longPatience)
			took := time.Since(started)
			require.Equal(t, brakes, brakesOf(pushq), "until the good ones were sent, which took %s", took)
			for _, push := range waitForAll(t, pushq, badIDs, tasks.GivenUp, longPatience) {
				require.Equal(t, fcmMaxAttempts, refusals(push))
			}
			require.LessOrEqual(t, brakesOf(pushq), brakes+2, "ten in a row, when nobody else is left")
			for number := range good {
				require.Equal(t, 1, w.requestsTo()[fmt.Sprintf("good-%d", number)])
			}
		})
	}
}

// A project that is over its quota is asked little, whatever has been served before, and every
// push is sent in the end.
func TestAProjectOverItsQuotaBrakesTheChannel(t *testing.T) {
	t.Parallel()
	const pushes, pause = 60, 3 * time.Second
	w := newFCMWorld(t)
	pushq := w.serve("FCM_RETRY_MAXATTEMPTS=20")
	require.NoError(t, w.firebase.SetOutcome("429after3x99-"))
	ids := notifyMany(t, pushq, "device", pushes)
	testenv.Eventually(t, longPatience, "four brakes", func() bool { return brakesOf(pushq) >= 4 })
	require.NoError(t, w.firebase.SetOutcome(""))
	waitForAll(t, pushq, ids, tasks.Sent, longPatience)

	refused, brakes := 0, brakesOf(pushq)
	for _, request := range w.firebase.Ledger() {
		if request.Status == http.StatusTooManyRequests {
			refused++
		}
	}
	// Ten in a row, and those that were under way then.
	require.LessOrEqual(t, refused, brakes*(10+5))
}
