package faults

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/fcmsim"
	"pushq/internal/testenv"
	"pushq/tasks"
)

const breakerStateKey = "circuit:push_worker:fcm:state"

// A Firebase that does not work is reached by five requests, then by two, and then by one in
// each openFor, of all workers together; every push waits, and arrives when it works again.
func TestADeadFirebaseIsLeftInPeace(t *testing.T) {
	t.Parallel()
	messages, openFor, dead := several(200, 1000), length(3*time.Second, 30*time.Second), length(12*time.Second, time.Minute)
	w := newFCMWorld(t, fcmsim.Config{})
	require.NoError(t, w.Firebase.SetOutcome("503-"))
	api := w.start("api")
	callers := newNotifiers(t)
	callers.patient = true
	callers.post(messages, api.URL())
	began := time.Now()
	for range 3 {
		w.start("worker", "FCM_BREAKER_OPENFOR="+openFor.String(), "FCM_RETRY_MAXATTEMPTS=2") // nobody has to probe twice
	}
	testenv.Eventually(t, 20*time.Second, "the breaker to be open", func() bool {
		return w.Redis.Client(t).Get(t.Context(), breakerStateKey).Val() == "open"
	})
	time.Sleep(time.Until(began.Add(dead)))
	require.NoError(t, w.Firebase.SetOutcome(""))
	back := time.Now()
	reached := w.Firebase.Ledger()

	w.waitUntilEnded(callers, api, 2*openFor+time.Minute) // the latest probe waits for twice openFor
	t.Logf("%d requests reached it; all %d messages SENT %.1f s after it was back", len(reached), messages, time.Since(back).Seconds())
	require.GreaterOrEqual(t, len(reached), 5+2, "five, and the first look")
	require.Less(t, reached[4].ArrivedAt.Sub(reached[0].ArrivedAt), openFor)
	for place := 5; place < len(reached) && !reached[place].Delivered; place++ {
		if place == 6 {
			continue // the first look asks two
		}
		const countedIn = time.Millisecond
		require.GreaterOrEqual(t, reached[place].ArrivedAt.Sub(reached[place-1].ArrivedAt), openFor-countedIn, "request %d", place+1)
	}
	account := w.reckonNotifications(callers, api)
	require.Equal(t, messages, account.accepted)
	account.requireSentOnce(t)
}

// Pushes that have a permit and wait for a slow pace when Firebase dies do not go on to it
// once the breaker is open, in whichever worker they are.
func TestPushesThatWaitForTheirSlotLeaveADeadFirebaseInPeace(t *testing.T) {
	t.Parallel()
	const messages, workers, permits = 60, 3, 25
	w := newFCMWorld(t, fcmsim.Config{})
	api := w.start("api")
	callers := newNotifiers(t)
	callers.patient = true
	callers.post(messages, api.URL())
	for range workers {
		w.start("worker", "FCM_DELAYMILLIS=1000", "FCM_RETRY_FIRST=1h", "FCM_RETRY_CAP=1h")
	}
	testenv.Eventually(t, 30*time.Second, "permits to be handed out", func() bool {
		const fields = 13 // of the breaker itself
		return w.Redis.Client(t).HLen(t.Context(), tasks.FCM.BreakerKey("fcm")).Val() >= fields+permits
	})
	require.NoError(t, w.Firebase.SetOutcome("503-"))
	alive := len(w.Firebase.Ledger())
	testenv.Eventually(t, 30*time.Second, "the breaker to be open", func() bool {
		return w.Redis.Client(t).Get(t.Context(), breakerStateKey).Val() == "open"
	})
	// Their slots come one after the other, and requests would go on with them.
	testenv.Eventually(t, 30*time.Second, "some of them to come to their slot", func() bool {
		return w.recordsWith("the permit lapsed before the request") >= 5
	})
	reached := w.Firebase.Ledger()[alive:]
	t.Logf("%d requests reached it", len(reached))
	// Each of the other workers may hear of it by its own next request.
	require.LessOrEqual(t, len(reached), 5+workers-1)
}

// recordsWith counts the pushes whose story has the text.
func (w *fcmWorld) recordsWith(text string) (count int) {
	client := w.Redis.Client(w.t)
	for _, key := range client.Keys(w.t.Context(), tasks.FCM.RecordKey("*")).Val() {
		if strings.Contains(client.Get(w.t.Context(), key).Val(), text) {
			count++
		}
	}
	return count
}

// What a worker has in hand to a Firebase that does not answer keeps others from making
// requests as long as that worker lives, and not much longer.
func TestAWorkerIsLostAtADeadFirebase(t *testing.T) {
	t.Parallel()
	const messages, concurrency, goesOn = 30, 10, 20 * time.Second
	for _, test := range []struct {
		name     string
		lose     func(worker *testenv.Process)
		probing  bool // it has the one request of a breaker that is half open in hand
		requests int  // in hand
		goOn     func(worker *testenv.Process)
	}{
		{"killed", (*testenv.Process).Kill, false, 5, (*testenv.Process).Kill},
		{"killed while it probes", (*testenv.Process).Kill, true, 1, (*testenv.Process).Kill},
		{"frozen", (*testenv.Process).Freeze, false, 5, (*testenv.Process).Thaw},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newFCMWorld(t, fcmsim.Config{})
			settings := []string{"FCM_BREAKER_OPENFOR=1s", fmt.Sprintf("FCM_CONCURRENCY=%d", concurrency)}
			api := w.start("api")
			callers := newNotifiers(t)
			callers.patient = true
			callers.post(messages, api.URL())
			if test.probing {
				require.NoError(t, w.Firebase.SetOutcome("503-"))
			} else {
				require.NoError(t, w.Firebase.SetOutcome("hang-"))
			}
			lost := w.start("worker", settings...)
			if test.probing {
				testenv.Eventually(t, 20*time.Second, "the breaker to be open", func() bool {
					return w.Redis.Client(t).Get(t.Context(), breakerStateKey).Val() == "open"
				})
				require.NoError(t, w.Firebase.SetOutcome("hang-"))
			}
			testenv.Eventually(t, 20*time.Second, "requests to hang", func() bool {
				return w.Firebase.Stats().InFlight == test.requests
			})
			w.start("worker", settings...)
			reached := len(w.Firebase.Ledger())
			time.Sleep(time.Second) // the other one would make requests now
			require.Len(t, w.Firebase.Ledger(), reached)

			test.lose(lost)
			at := time.Now()
			require.NoError(t, w.Firebase.SetOutcome(""))
			testenv.Eventually(t, goesOn, "the other worker to go on", func() bool { return len(w.Delivered()) > 0 })
			t.Logf("the other worker went on after %.1f s", time.Since(at).Seconds())
			testenv.Eventually(t, goesOn, "what the lost one does not have to be delivered", func() bool {
				return len(w.Delivered()) >= messages-concurrency
			})
			if *full {
				test.goOn(lost)
				w.waitUntilEnded(callers, api, recoveryTimeout)
				require.Equal(t, messages, w.reckonNotifications(callers, api).sent)
			}
		})
	}
}
