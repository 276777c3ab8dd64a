package tasks

import (
	"testing"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"
)

// The texts that asynq may keep of a task's last run.
var lastErrors = []string{
	"",
	"deferred: window opens 2026-11-27T09:00:00Z",
	"deferred: shutdown",
	"deferred: brake: the provider asked to wait",
	"attempt failed: SWRVE 503: no room",
	"asynq: task lease expired",
	"failed: SWRVE 400: no such user",
	"given up: OTHER: no answer",
	"context canceled",
	"some text that is not pushq's",
	"it failed: like this", // a prefix in the middle is none
}

func inState(state asynq.TaskState, lastError string) *asynq.TaskInfo {
	return &asynq.TaskInfo{State: state, LastErr: lastError}
}

// undelivered are the records that leave the state to the task.
func undelivered() map[string]*Record {
	failed := []Attempt{{Status: AttemptError}}
	return map[string]*Record{
		"no record":             nil,
		"no attempts":           {},
		"an attempt in process": {Attempts: []Attempt{{Status: AttemptInProcess}}},
		"a failed attempt":      {Attempts: failed},
		"retried since":         {Attempts: failed, BudgetFrom: 1},
		"ended FAILED":          {Attempts: failed, End: Failed},
		"ended GIVEN_UP":        {Attempts: failed, End: GivenUp},
		"ended CANCELLED":       {Attempts: failed, End: Cancelled},
	}
}

// delivered are the records that make a push SENT whatever the task says.
func delivered() map[string]*Record {
	return map[string]*Record{
		"an OK attempt":                    {Attempts: []Attempt{{Status: AttemptOK}}},
		"an OK attempt, ended SENT":        {Attempts: []Attempt{{Status: AttemptOK}}, End: Sent},
		"a late OK attempt":                {Attempts: []Attempt{{Status: AttemptOK}, {Status: AttemptError}}},
		"an OK attempt, ended FAILED":      {Attempts: []Attempt{{Status: AttemptOK}}, End: Failed},
		"an OK attempt, ended CANCELLED":   {Attempts: []Attempt{{Status: AttemptOK}}, End: Cancelled},
		"an OK attempt after a failed one": {Attempts: []Attempt{{Status: AttemptError}, {Status: AttemptOK}}},
	}
}

// stateRules say what each task reads as with an undelivered record: always the
// same, but for the records named in except.
var stateRules = []struct {
	state  asynq.TaskState
	texts  []string
	want   State
	except map[string]State
}{
	// What is left over of earlier runs means nothing in these states.
	{state: asynq.TaskStateScheduled, texts: lastErrors, want: Scheduled},
	{state: asynq.TaskStatePending, texts: lastErrors, want: Pending},
	{state: asynq.TaskStateActive, texts: lastErrors, want: InMemory},
	{state: asynq.TaskStateCompleted, texts: lastErrors, want: Sent},
	{state: asynq.TaskStateAggregating, texts: lastErrors, want: Pending}, // pushq uses no groups

	{state: asynq.TaskStateRetry, want: Scheduled, texts: []string{"deferred: window opens 2026-11-27T09:00:00Z"},
		except: map[string]State{"ended CANCELLED": Cancelled}},
	{state: asynq.TaskStateRetry, want: Pending, texts: []string{
		"deferred: shutdown", "deferred: brake: the provider asked to wait",
	}, except: map[string]State{"ended CANCELLED": Cancelled}},
	{state: asynq.TaskStateRetry, want: Retry, texts: []string{
		"", "attempt failed: SWRVE 503: no room", "asynq: task lease expired", "context canceled",
		"failed: SWRVE 400: no such user", "given up: OTHER: no answer",
		"some text that is not pushq's", "it failed: like this",
	}, except: map[string]State{"ended CANCELLED": Cancelled}},

	{state: asynq.TaskStateArchived, want: Failed, texts: []string{"failed: SWRVE 400: no such user"},
		except: map[string]State{"ended CANCELLED": Cancelled, "retried since": Cancelled}},
	{state: asynq.TaskStateArchived, want: GivenUp, texts: []string{"given up: OTHER: no answer"},
		except: map[string]State{"ended CANCELLED": Cancelled, "retried since": Cancelled}},
	// An operator's hand, unless the record knows better.
	{state: asynq.TaskStateArchived, want: Cancelled, texts: []string{
		"", "deferred: window opens 2026-11-27T09:00:00Z", "deferred: shutdown", "deferred: brake: the provider asked to wait",
		"attempt failed: SWRVE 503: no room", "asynq: task lease expired", "context canceled",
		"some text that is not pushq's", "it failed: like this",
	}, except: map[string]State{"ended FAILED": Failed, "ended GIVEN_UP": GivenUp}},
}

func TestStateOfEveryTaskAndUndeliveredRecord(t *testing.T) {
	t.Parallel()
	for _, rule := range stateRules {
		for _, text := range rule.texts {
			for name, record := range undelivered() {
				want := rule.want
				if exception, ok := rule.except[name]; ok {
					want = exception
				}
				got, known := StateOf(inState(rule.state, text), record)
				require.True(t, known)
				require.Equal(t, want, got, "%s, %q, %s", rule.state, text, name)
			}
		}
	}
}

func TestADeliveredPushIsSentWhateverAsynqSays(t *testing.T) {
	t.Parallel()
	for name, record := range delivered() {
		got, known := StateOf(nil, record)
		require.True(t, known)
		require.Equal(t, Sent, got, name)
		for _, state := range everyTaskState() {
			for _, text := range lastErrors {
				got, known := StateOf(inState(state, text), record)
				require.True(t, known)
				require.Equal(t, Sent, got, "%s, %q, %s", state, text, name)
			}
		}
	}
}

func TestStateOfAPushWithoutATask(t *testing.T) {
	t.Parallel()
	_, known := StateOf(nil, nil)
	require.False(t, known)

	for name, want := range map[string]State{
		"no attempts": Cancelled, "an attempt in process": Cancelled, "a failed attempt": Cancelled,
		"ended FAILED": Failed, "ended GIVEN_UP": GivenUp, "ended CANCELLED": Cancelled,
	} {
		got, known := StateOf(nil, undelivered()[name])
		require.True(t, known)
		require.Equal(t, want, got, name)
	}
}

func TestTheRulesCoverEveryTaskStateAndText(t *testing.T) {
	t.Parallel()
	covered := map[asynq.TaskState][]string{}
	for _, rule := range stateRules {
		covered[rule.state] = append(covered[rule.state], rule.texts...)
	}
	require.Len(t, covered, len(everyTaskState()))
	for _, state := range everyTaskState() {
		require.ElementsMatch(t, lastErrors, covered[state], state.String())
	}
}

// everyTaskState asks asynq, which knows no list of its states but panics at
// the name of one that does not exist.
func everyTaskState() (states []asynq.TaskState) {
	defer func() { _ = recover() }()
	for state := asynq.TaskState(1); ; state++ {
		if state.String() == "" {
			return states
		}
		states = append(states, state)
	}
}

func TestStatesAreInTheOrderOfAPushesLife(t *testing.T) {
	t.Parallel()
	require.Equal(t, []State{"SCHEDULED", "PENDING", "IN_MEMORY", "RETRY", "SENT", "GIVEN_UP", "FAILED", "CANCELLED"}, States())
}
