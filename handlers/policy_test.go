package handlers_test

import (
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/swrvesim"
	"pushq/tasks"
)

// askedPolicy remembers for which attempts it was asked.
type askedPolicy struct {
	mutex sync.Mutex
	asked []int
}

func (p *askedPolicy) After(attempt int, finishedAt time.Time) time.Time {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.asked = append(p.asked, attempt)
	return finishedAt.Add(time.Hour)
}

// The time between attempts grows with those that count, from the beginning again after an
// operator's retry.
func TestThePolicyKnowsTheAttemptsThatCount(t *testing.T) {
	t.Parallel()
	failed := tasks.Attempt{Token: "failed", Status: tasks.AttemptError, ErrorType: tasks.ErrorSwrve, ErrorCode: 503}
	withdrawn := tasks.Attempt{Token: "withdrawn", Status: tasks.AttemptError, ErrorType: tasks.ErrorOther, Uncounted: true}
	probe := tasks.Attempt{Token: "probe", Status: tasks.AttemptError, ErrorType: tasks.ErrorOther, Probe: true}
	for name, test := range map[string]struct {
		attempts   []tasks.Attempt
		budgetFrom int
		want       int
	}{
		"first":                    {nil, 0, 1},
		"third":                    {[]tasks.Attempt{failed, failed}, 0, 3},
		"withdrawn in between":     {[]tasks.Attempt{failed, withdrawn}, 0, 2},
		"probes in between":        {[]tasks.Attempt{failed, probe, probe}, 0, 2},
		"retried":                  {[]tasks.Attempt{failed, failed, failed}, 3, 1},
		"retried and failed since": {[]tasks.Attempt{failed, failed, failed, failed}, 3, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, swrvesim.Config{})
			push := newPush("503-ann")
			if len(test.attempts) > 0 {
				stored, err := json.Marshal(tasks.Record{Push: push, Attempts: test.attempts, BudgetFrom: test.budgetFrom})
				require.NoError(t, err)
				require.NoError(t, w.clients.Read.Set(t.Context(), tasks.Swrve.RecordKey(push.ID), stored, time.Hour).Err())
			}
			policy := &askedPolicy{}
			stop := w.work(workforce{maxAttempts: 10, policy: policy})
			w.await(w.accept(push), tasks.Retry, len(test.attempts)+1)
			stop()
			require.Equal(t, []int{test.want}, policy.asked)
		})
	}
}
