package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pushq/tasks"
)

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
