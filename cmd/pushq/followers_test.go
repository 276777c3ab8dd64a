package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/testenv"
	"pushq/tasks"
)

// The history and the queue of failures are switched on in one process while another goes on
// without them, and works alone for a while: nothing that either ends is missing.
func TestProcessesWithDifferentSettingsLoseNoRowsAndFailures(t *testing.T) {
	t.Parallel()
	w := newFCMWorld(t)
	rabbit, database := testenv.StartRabbitMQ(t), testenv.StartPostgres(t)
	without := w.serve()
	with := []string{"RABBITMQ_URL=" + rabbit.URL(), "HISTORY_POSTGRESURL=" + database.URL()}
	startWith := func() *testenv.Process { return w.startReady("worker", append(with, w.settings...)...) }
	posted, failures := 0, 0
	notifyMany := func(count int) {
		for number := range count {
			device, state := fmt.Sprintf("device-%d", posted), tasks.Sent
			if number%4 == 0 {
				device, state = fmt.Sprintf("UNREGISTERED-%d", posted), tasks.Failed
				failures++
			}
			id, _ := notify(t, without, notificationBody(device))
			posted++
			defer waitFor(t, without, id, state, time.Minute)
		}
	}
	requireTold := func() {
		t.Helper()
		testenv.Eventually(t, time.Minute, fmt.Sprintf("%d rows of the history and %d failures", posted, failures), func() bool {
			_, audited := database.Rows(t, "audit_logs", "push_id")
			_, pushes := database.Rows(t, "push_notifications", "id")
			return audited == posted && pushes == posted && rabbit.Depth(t, failuresQueue) == failures
		})
	}

	worker := startWith()
	notifyMany(60)
	requireTold()
	worker.Terminate()
	require.Zero(t, worker.Wait(30*time.Second))
	notifyMany(20)
	other := w.serve()
	for _, setting := range []string{"setting=history.postgresUrl", "setting=rabbitmq.url"} {
		require.Contains(t, strings.Join(other.Stderr(), "\n"), setting)
	}
	require.NotContains(t, strings.Join(other.Stderr(), "\n"), "setting=fcm.enabled")
	backlogs := testenv.ScrapeURL(t, other.URL()+"/metrics").Family("pushq_follow_backlog")
	require.Equal(t, 20.0, backlogs[`channel="fcm",follower="history"`], "what waits is seen: %v", backlogs)
	startWith()
	requireTold()
}

func TestFailureReason(t *testing.T) {
	t.Parallel()
	busy := tasks.Attempt{Status: tasks.AttemptError, ErrorType: tasks.ErrorFCM, ErrorCode: 503, ErrorMessage: "UNAVAILABLE"}
	unanswered := tasks.Attempt{Status: tasks.AttemptError, ErrorType: tasks.ErrorOther, ErrorMessage: "no answer: timeout"}
	withdrawn := tasks.Attempt{Status: tasks.AttemptError, ErrorType: tasks.ErrorOther, ErrorMessage: "not sent: shutdown", Uncounted: true}
	probe := unanswered
	probe.Probe = true
	for name, test := range map[string]struct {
		record tasks.Record
		want   string
	}{
		"refused": {tasks.Record{End: tasks.Failed, Attempts: []tasks.Attempt{
			{Status: tasks.AttemptError, ErrorType: tasks.ErrorTemplate, ErrorMessage: "no text"},
		}}, "TEMPLATE: no text"},
		"given up": {tasks.Record{End: tasks.GivenUp, Attempts: []tasks.Attempt{busy, busy, unanswered}},
			"OTHER: no answer: timeout after 2 retries"},
		"at once": {tasks.Record{End: tasks.GivenUp, Attempts: []tasks.Attempt{busy}}, "FCM 503: UNAVAILABLE after 0 retries"},
		"withdrawn": {tasks.Record{End: tasks.GivenUp, Attempts: []tasks.Attempt{busy, withdrawn, busy, withdrawn}},
			"FCM 503: UNAVAILABLE after 1 retries"},
		"probes": {tasks.Record{End: tasks.GivenUp, Attempts: []tasks.Attempt{busy, probe, probe, busy}},
			"FCM 503: UNAVAILABLE after 1 retries"},
		"again after an operator's retry": {tasks.Record{End: tasks.GivenUp, BudgetFrom: 4, Attempts: []tasks.Attempt{
			unanswered, unanswered, unanswered, unanswered, busy, busy, busy, busy,
		}}, "FCM 503: UNAVAILABLE after 3 retries"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, test.want, failureReason(test.record))
		})
	}
}
