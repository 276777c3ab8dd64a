package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/swrvesim"
	"pushq/internal/testenv"
	"pushq/tasks"
)

func TestRaisingMaxAttemptsHoldsForWaitingPushes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	api := w.startReady("api")
	worker := w.startReady("worker", "PUSH_RETRY_MAXATTEMPTS=3", "PUSH_RETRY_DELAYINSECONDS=3")
	var ids []string
	for number := range 3 {
		ids = append(ids, accept(t, api, fmt.Sprintf("503-%d", number)))
	}
	waitForAll(t, api, ids, tasks.Retry, 20*time.Second)
	worker.Terminate()
	require.Zero(t, worker.Wait(30*time.Second))

	w.startReady("worker", "PUSH_RETRY_MAXATTEMPTS=5", "PUSH_RETRY_DELAYINSECONDS=1")
	for _, push := range waitForAll(t, api, ids, tasks.GivenUp, 60*time.Second) {
		require.Len(t, push.Attempts, 5)
	}
}

func TestScriptedOutcomesReadBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	serve := w.startReady("serve", "SWRVE_TIMEOUTMILLIS=4000", "SWRVE_AVERAGEPROCESSINGMILLIS=1000", "SWRVE_CONCURRENCY=50")
	const none = 0
	for _, scripted := range []struct {
		user           string
		state          tasks.State
		attempts       int
		errorType      string // of the first attempt
		errorCode      int
		maybeDelivered bool
		message        string
	}{
		{"plain", tasks.Sent, 1, "", none, false, ""},
		{"500x2-", tasks.Sent, 3, "SWRVE", 500, false, ""},
		{"503-", tasks.GivenUp, 3, "SWRVE", 503, false, ""},
		{"400-", tasks.Failed, 1, "SWRVE", 400, false, "Rejected, User Has Changed Token"},
		{"403-", tasks.Failed, 1, "SWRVE", 403, false, ""},
		{"429-", tasks.GivenUp, 3, "SWRVE", 429, false, "Rate Limit Exceeded"},
		{"302-", tasks.GivenUp, 3, "OTHER", 302, false, "not Swrve's"},
		{"hang-", tasks.GivenUp, 3, "OTHER", none, true, "timeout"},
		{"reset-", tasks.GivenUp, 3, "OTHER", none, true, ""},
		{"resetx1-", tasks.Sent, 2, "OTHER", none, true, ""},
		{"html502-", tasks.GivenUp, 3, "SWRVE", 502, false, "<html"},
		{"ok-then-reset-", tasks.GivenUp, 3, "OTHER", none, true, ""},
		{"body400-", tasks.Failed, 1, "SWRVE", 400, false, ""},
	} {
		t.Run(scripted.user, func(t *testing.T) {
			t.Parallel()
			push := waitFor(t, serve, accept(t, serve, scripted.user), scripted.state, 60*time.Second)
			require.Len(t, push.Attempts, scripted.attempts)
			require.Nil(t, push.NextAttemptAt)
			for place, attempt := range push.Attempts {
				require.Equal(t, place+1, attempt.ID)
				require.NotNil(t, attempt.Millis)
				require.NotNil(t, attempt.StartedAt)
				if place > 0 {
					pause := attempt.StartedAt.Sub(*push.Attempts[place-1].StartedAt)
					require.GreaterOrEqual(t, pause, time.Second, "no retry earlier than the delay")
				}
			}
			first := push.Attempts[0]
			if scripted.errorType == "" {
				require.Equal(t, "OK", first.Status)
				require.Nil(t, first.ErrorType)
				return
			}
			require.Equal(t, "ERROR", first.Status)
			require.Equal(t, scripted.errorType, *first.ErrorType)
			require.Equal(t, scripted.maybeDelivered, first.MaybeDelivered)
			if scripted.errorCode == none {
				require.Nil(t, first.ErrorCode)
			} else {
				require.Equal(t, scripted.errorCode, *first.ErrorCode)
			}
			if scripted.message != "" {
				require.Contains(t, strings.ToLower(*first.ErrorMessage), strings.ToLower(scripted.message))
			}
		})
	}
	t.Run("no push key", func(t *testing.T) {
		t.Parallel()
		id := accept(t, serve, "nobody", `"cronExpression":null`)
		waitFor(t, serve, id, tasks.Sent, 20*time.Second)
		_, header, _ := post(t, serve, strings.Replace(pushBody("nobody"), "Hello", "Unmapped", 1))
		push := waitFor(t, serve, strings.TrimPrefix(header.Get("Location"), "/push/"), tasks.Failed, 20*time.Second)
		require.Len(t, push.Attempts, 1)
		require.Equal(t, "MESSAGE_PROTOTYPE_KEY", *push.Attempts[0].ErrorType)
		require.Zero(t, *push.Attempts[0].Millis)
	})
}

func TestAPushWaitsForItsWindow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	serve := w.startReady("serve")
	opening := time.Now().Add(15 * time.Second).Truncate(time.Second).UTC()
	expression := fmt.Sprintf("%d %d %d * * ?", opening.Second(), opening.Minute(), opening.Hour())
	id := accept(t, serve, "user", fmt.Sprintf(`"cronExpression":%q`, expression))
	push := lookUp(t, serve, id)
	require.Equal(t, tasks.Scheduled, push.Status)
	require.Equal(t, opening, *push.NextAttemptAt)
	waitFor(t, serve, id, tasks.Sent, 30*time.Second)
	require.False(t, w.Swrve.Ledger()[0].ArrivedAt.Before(opening), "never early")

	// A window that is closed now and opens within days.
	closed := time.Now().UTC().Add(12 * time.Hour)
	id = accept(t, serve, "later", fmt.Sprintf(`"cronExpression":"* * %d * * ?"`, closed.Hour()))
	testenv.Eventually(t, 10*time.Second, "the push to be scheduled", func() bool { return lookUp(t, serve, id).Status == tasks.Scheduled })
}
