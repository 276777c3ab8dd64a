package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/testenv"
	"pushq/tasks"
)

// shortBreaker has the proportions of the default settings: a tenth of openFor and of the
// timeout of a request.
var shortBreaker = []string{"FCM_BREAKER_OPENFOR=3s", "FCM_TIMEOUTMILLIS=3000"}

const (
	fcmMaxAttempts = 4 // fcm.retry.maxAttempts
	longPatience   = 2 * time.Minute
)

// requestsTo counts Firebase's requests by device.
func (w *fcmWorld) requestsTo() map[string]int {
	count := map[string]int{}
	for _, request := range w.firebase.Ledger() {
		count[request.Token]++
	}
	return count
}

// notifyMany posts a message to each of so many devices, and returns the pushes' ids.
func notifyMany(t *testing.T, process *testenv.Process, devices string, count int, replaced ...string) (ids []string) {
	t.Helper()
	for number := range count {
		id, _ := notify(t, process, notificationBody(fmt.Sprintf("%s-%d", devices, number), replaced...))
		ids = append(ids, id)
	}
	return ids
}

// waitForGivenUp waits until all pushes are given up. Others come meanwhile, so that somebody is
// served: without them, nothing tells bad pushes from a service that has died.
func waitForGivenUp(t *testing.T, process *testenv.Process, ids []string) []pushAnswer {
	t.Helper()
	later := 0
	testenv.EventuallyNoError(t, 3*time.Minute, func() error {
		later++
		id, _ := notify(t, process, notificationBody(fmt.Sprintf("later-%d", later)))
		waitFor(t, process, id, tasks.Sent, longPatience)
		for _, id := range ids {
			if push := lookUp(t, process, id); push.Status != tasks.GivenUp {
				return fmt.Errorf("push %s is %s after %d attempts", id, push.Status, len(push.Attempts))
			}
		}
		return nil
	})
	return waitForAll(t, process, ids, tasks.GivenUp, longPatience)
}

func opensOf(t *testing.T, process *testenv.Process, service string) float64 {
	t.Helper()
	return scrape(t, process).Series[`pushq_breaker_opens_total{service="`+service+`"}`]
}

// Six devices that Firebase cannot serve, before all others, cost the channel the breaker
// open once, and each of them its attempts.
func TestAFewBadDevicesDoNotStopTheOthers(t *testing.T) {
	for _, outcome := range []string{"ok-then-reset", "hang", "500"} {
		t.Run(outcome, func(t *testing.T) {
			t.Parallel()
			const bad, good = 6, 40
			w := newFCMWorld(t)
			pushq := w.serve(shortBreaker...)
			badIDs := notifyMany(t, pushq, outcome+"-bad", bad)
			testenv.Eventually(t, longPatience, "the breaker to open", func() bool { return opensOf(t, pushq, fcmService) > 0 })
			waitForAll(t, pushq, notifyMany(t, pushq, "good", good), tasks.Sent, longPatience)
			// Once, unless the good ones are so late on a busy machine that the bad ones are there too.
			require.LessOrEqual(t, opensOf(t, pushq, fcmService), 2.0, "no longer than twice openFor")

			waitForGivenUp(t, pushq, badIDs)
			requests := w.requestsTo()
			for number := range bad {
				// One that does certainly not arrive may be a probe before a good one is.
				most := fcmMaxAttempts
				if outcome == "500" {
					most += 2
				}
				require.LessOrEqual(t, requests[fmt.Sprintf("%s-bad-%d", outcome, number)], most)
			}
			for number := range good {
				require.Equal(t, 1, requests[fmt.Sprintf("good-%d", number)])
			}
			require.LessOrEqual(t, opensOf(t, pushq, fcmService), 2.0)
		})
	}
}

// Firebase fails for a tenth of the pushes: the others are SENT, and these are given up.
func TestAFirebaseThatFailsForATenth(t *testing.T) {
	t.Parallel()
	const pushes = 400
	w := newFCMWorld(t)
	pushq := w.serve(shortBreaker...)
	bad, badIDs, good := map[string]string{}, []string{}, []string{}
	for number := range pushes {
		device := fmt.Sprintf("good-%d", number)
		if rand.N(10) == 0 {
			device = []string{"500", "reset", "ok-then-reset", "503"}[rand.N(4)] + fmt.Sprintf("-bad-%d", number)
		}
		id, _ := notify(t, pushq, notificationBody(device))
		if strings.HasPrefix(device, "good") {
			good = append(good, id)
		} else {
			bad[device] = id
			badIDs = append(badIDs, id)
		}
	}
	waitForAll(t, pushq, good, tasks.Sent, longPatience)
	require.LessOrEqual(t, opensOf(t, pushq, fcmService), 2.0, "no longer than twice openFor")

	waitForGivenUp(t, pushq, badIDs)
	requests := w.requestsTo()
	for device, id := range bad {
		require.GreaterOrEqual(t, len(lookUp(t, pushq, id).Attempts), requests[device], device)
		if strings.HasPrefix(device, "500") { // what certainly does not arrive may have been a probe
			require.LessOrEqual(t, requests[device], fcmMaxAttempts+2, device)
		} else {
			require.Equal(t, fcmMaxAttempts, requests[device], device)
		}
	}
	for device, count := range requests {
		if strings.HasPrefix(device, "good") || strings.HasPrefix(device, "later") {
			require.Equal(t, 1, count, device)
		}
	}
}

// A cold cache, and templates that the service cannot deliver, before the one of all
// others.
func TestAFewBadTemplatesDoNotStopTheOthers(t *testing.T) {
	for name, codeOf := range map[string]func(number int) string{
		"six templates":        func(number int) string { return fmt.Sprintf("500-bad%d", number) },
		"one for six messages": func(int) string { return "500-bad" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const bad, good = 6, 30
			w := newFCMWorld(t)
			// The good ones show that the service works: their template is not from the cache.
			pushq := w.serve(append(slices.Clone(shortBreaker), "TEMPLATE_FRESH=0s")...)
			var badIDs []string
			for number := range bad {
				id, _ := notify(t, pushq, notificationBody(fmt.Sprintf("bad-%d", number), "welcome_notification", codeOf(number)))
				badIDs = append(badIDs, id)
			}
			testenv.Eventually(t, longPatience, "the breaker to open", func() bool { return opensOf(t, pushq, templateService) > 0 })
			waitForAll(t, pushq, notifyMany(t, pushq, "good", good), tasks.Sent, longPatience)
			require.LessOrEqual(t, opensOf(t, pushq, templateService), 2.0, "no longer than twice openFor")
			for _, push := range waitForGivenUp(t, pushq, badIDs) {
				require.Len(t, push.Attempts, fcmMaxAttempts)
				for _, attempt := range push.Attempts {
					require.Equal(t, "TEMPLATE", *attempt.ErrorType)
					require.Contains(t, *attempt.ErrorMessage, "500 Internal Server Error")
				}
			}
			requests := w.requestsTo()
			for number := range bad {
				require.NotContains(t, requests, fmt.Sprintf("bad-%d", number))
			}
			for number := range good {
				require.Equal(t, 1, requests[fmt.Sprintf("good-%d", number)])
			}
		})
	}
}

// Whoever refuses pushq itself ends no push: all wait, and everybody can see why.
func TestWhoeverRefusesPushqItselfEndsNoPush(t *testing.T) {
	const pushes = 40
	for name, test := range map[string]struct {
		service string
		refuse  func(w *fcmWorld, prefix string) error
		prefix  string
		says    string
	}{
		"Firebase 401":      {fcmService, func(w *fcmWorld, prefix string) error { return w.firebase.SetOutcome(prefix) }, "401-", "FCM"},
		"Firebase 403":      {fcmService, func(w *fcmWorld, prefix string) error { return w.firebase.SetOutcome(prefix) }, "403-", "FCM"},
		"Firebase 404":      {fcmService, func(w *fcmWorld, prefix string) error { return w.firebase.SetOutcome(prefix) }, "404-", "FCM"},
		"a proxy's 404":     {fcmService, func(w *fcmWorld, prefix string) error { return w.firebase.SetOutcome(prefix) }, "html404-", "FCM"},
		"the templates 401": {templateService, func(w *fcmWorld, prefix string) error { return w.templates.SetTrouble(prefix) }, "401-", "TEMPLATE"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFCMWorld(t)
			pushq := w.serve("FCM_BREAKER_OPENFOR=2s", "FCM_RETRY_MAXATTEMPTS=1")
			require.NoError(t, test.refuse(w, test.prefix))
			ids := notifyMany(t, pushq, "device", pushes)
			testenv.Eventually(t, longPatience, "two looks", func() bool { return opensOf(t, pushq, test.service) >= 3 })
			require.Equal(t, 1.0, scrape(t, pushq).Series[`pushq_provider_refused{channel="fcm",service="`+test.service+`"}`])
			_, checks := readyHealth(t, pushq)
			require.Equal(t, "it refuses pushq itself: mend the configuration", checks[test.service].(map[string]any)["error"])
			shown := 0
			for _, id := range ids {
				push := lookUp(t, pushq, id)
				require.NotContains(t, []tasks.State{tasks.Failed, tasks.GivenUp}, push.Status)
				for _, attempt := range push.Attempts {
					if attempt.ErrorType != nil && *attempt.ErrorType == test.says {
						shown++
					}
				}
			}
			require.Positive(t, shown)

			require.NoError(t, test.refuse(w, ""))
			waitForAll(t, pushq, ids, tasks.Sent, longPatience)
			testenv.Eventually(t, longPatience, "the refusal to be over", func() bool {
				return scrape(t, pushq).Series[`pushq_provider_refused{channel="fcm",service="`+test.service+`"}`] == 0
			})
			told := strings.Count(strings.Join(pushq.Stderr(), "\n"), `the provider refuses pushq itself: mend the configuration"`)
			require.Positive(t, told)
			require.LessOrEqual(t, float64(told), opensOf(t, pushq, test.service))
		})
	}
}
