package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/testenv"
	"pushq/tasks"
)

// refusingOperator answers everything with one error.
type refusingOperator struct{ err error }

func (o refusingOperator) Retry(context.Context, string) error  { return o.err }
func (o refusingOperator) Cancel(context.Context, string) error { return o.err }
func (o refusingOperator) RetryAll(context.Context, tasks.Channel, tasks.Filter, int, string) (tasks.Bulk, error) {
	return tasks.Bulk{}, o.err
}
func (o refusingOperator) CancelAll(context.Context, tasks.Channel, tasks.Filter, int, string) (tasks.Bulk, error) {
	return tasks.Bulk{}, o.err
}

func (s *testService) retry(id string, header ...string) answer {
	s.t.Helper()
	return s.send(http.MethodPost, "/push/"+id+"/retry", nil, header...)
}

func (s *testService) cancel(id string, header ...string) answer {
	s.t.Helper()
	return s.send(http.MethodDelete, "/push/"+id, nil, header...)
}

func (s *testService) state(id string) string {
	s.t.Helper()
	for _, state := range tasks.States() {
		if strings.Contains(s.get("/push/"+id).body, fmt.Sprintf(`"status":%q`, state)) {
			return string(state)
		}
	}
	return ""
}

// ended stores a push that has ended, which asynq has forgotten.
func (s *testService) ended(end tasks.State) string {
	s.t.Helper()
	stored := tasks.Push{ID: tasks.NewID(), Platform: tasks.IOS, MessagePrototypeKey: "Hello", PushKey: canaryPushKey,
		Message: canaryMessage, CreatedAt: tasks.MillisOf(time.Now())}
	require.NoError(s.t, s.records.End(context.Background(), stored, end))
	return stored.ID
}

func TestRetryAndCancelByState(t *testing.T) {
	t.Parallel()
	s := startService(t)
	far := time.Now().UTC().Add(48 * time.Hour).Truncate(time.Hour)
	instant := fmt.Sprintf(`"0 0 %d %d %d ? %d"`, far.Hour(), far.Day(), far.Month(), far.Year())
	ways := map[tasks.State]func() string{
		tasks.Scheduled: func() string { return s.accept(push("cronExpression", instant)) },
		tasks.Pending:   func() string { return s.accept(push()) },
		tasks.Sent:      func() string { return s.ended(tasks.Sent) },
		tasks.Failed:    func() string { return s.ended(tasks.Failed) },
		tasks.GivenUp:   func() string { return s.ended(tasks.GivenUp) },
		tasks.Cancelled: func() string { return s.ended(tasks.Cancelled) },
	}
	for state, id := range ways {
		pushID := id()
		require.Equal(t, string(state), s.state(pushID))
		got := s.retry(pushID)
		switch state {
		case tasks.Failed, tasks.GivenUp, tasks.Cancelled:
			require.Equal(t, http.StatusAccepted, got.status, got.body)
			require.Equal(t, "/push/"+pushID, got.header.Get("Location"))
			require.Empty(t, got.body)
			require.Equal(t, "PENDING", s.state(pushID))
		case tasks.Scheduled:
			require.Equal(t, http.StatusConflict, got.status)
			require.Equal(t, "window-closed", got.kind())
			require.Contains(t, got.problem.Detail, far.Format("2006-01-02T15:04:05.000Z"))
			require.Equal(t, "SCHEDULED", got.problem.State)
		default:
			requireWrongState(t, got, state)
		}

		pushID = id()
		got = s.cancel(pushID)
		if state == tasks.Scheduled || state == tasks.Pending {
			require.Equal(t, http.StatusNoContent, got.status, got.body)
			require.Empty(t, got.body)
			require.Equal(t, "CANCELLED", s.state(pushID))
		} else {
			requireWrongState(t, got, state)
			require.Equal(t, string(state), s.state(pushID))
		}
	}
}

func requireWrongState(t *testing.T, got answer, state tasks.State) {
	t.Helper()
	require.Equal(t, http.StatusConflict, got.status, got.body)
	require.Equal(t, "wrong-state", got.kind())
	require.Equal(t, string(state), got.problem.State)
	require.Contains(t, got.problem.Detail, string(state))
}

func TestEveryRefusalOfAnOperator(t *testing.T) {
	t.Parallel()
	for _, state := range tasks.States() {
		s := prepareService(t)
		s.options.Operator = refusingOperator{fmt.Errorf("act: %w", &tasks.StateError{Action: "retried", State: state})}
		s.start()
		requireWrongState(t, s.retry("x"), state)
		requireWrongState(t, s.cancel("x"), state)
	}
	for _, refusal := range []struct {
		err    error
		status int
		kind   string
		detail string
	}{
		{&tasks.ClosedError{State: tasks.Retry}, 409, "window-closed", "never opens again"},
		{&tasks.SupersededError{State: tasks.Failed, By: "01JDQ1M2K3N4P5Q6R7S8T9V0W1"}, 409, "superseded", "stands for push 01JDQ1M2K3N4P5Q6R7S8T9V0W1 by now"},
		{&tasks.SupersededError{State: tasks.GivenUp}, 409, "superseded", "was sent already"},
		{tasks.ErrNotFound, 404, "not-found", "no such push"},
		{tasks.ErrUnreadable, 503, "unavailable", ""},
		{fmt.Errorf("%w: %w", tasks.ErrIncomplete, errors.New("i/o timeout")), 503, "outcome-unknown", "Repeating the request is safe"},
		{errors.New("inner workings"), 500, "internal", ""},
	} {
		s := prepareService(t)
		s.options.Operator = refusingOperator{refusal.err}
		s.start()
		answers := []answer{s.retry("x")}
		if refusal.status != http.StatusConflict { // these are of retries only
			answers = append(answers, s.cancel("x"))
		}
		for _, got := range answers {
			require.Equal(t, refusal.status, got.status)
			require.Equal(t, refusal.kind, got.kind())
			require.Contains(t, got.problem.Detail, refusal.detail)
			require.NotContains(t, got.body, "inner workings")
			require.Equal(t, refusal.status == 503, got.header.Get("Retry-After") != "")
		}
	}
}

func TestRetryAndCancelOfAPushThatDoesNotExist(t *testing.T) {
	t.Parallel()
	s := startService(t)
	for _, id := range []string{tasks.NewID(), "1", "*", "%2A", "%00", "..%2F..%2Fetc", strings.Repeat("A", 8000)} {
		for _, got := range []answer{s.retry(id), s.cancel(id)} {
			require.Equal(t, http.StatusNotFound, got.status, "%q", id)
			require.Equal(t, "not-found", got.kind())
		}
	}
	require.NotContains(t, s.log.String(), "msg=operator")
}

func TestRetryAndCancelWithoutRedis(t *testing.T) {
	t.Parallel()
	s := startService(t)
	id := s.accept(push())
	s.redis.Stop()
	for _, got := range []answer{s.retry(id), s.cancel(id)} {
		require.Equal(t, http.StatusServiceUnavailable, got.status, got.body)
		require.Equal(t, "unavailable", got.kind())
	}
}

func TestOperatorsAreLogged(t *testing.T) {
	t.Parallel()
	s := startServiceWithKeys(t)
	id := tasks.NewID()
	requireUnauthorized(t, s.retry(id))
	requireUnauthorized(t, s.cancel(id))

	key := []string{"Authorization", "Bearer " + shopKey}
	id = s.accept(push(), key...)
	require.Equal(t, http.StatusNoContent, s.cancel(id, key...).status)
	require.Equal(t, http.StatusConflict, s.cancel(id, key...).status)
	require.Equal(t, http.StatusAccepted, s.retry(id, key...).status)
	line := func(action, outcome string) string {
		return fmt.Sprintf("msg=operator action=%s id=%s caller=%s outcome=%s", action, id, "secret-name-shop", outcome)
	}
	testenv.Eventually(t, 5*time.Second, "the lines", func() bool { return strings.Contains(s.log.String(), line("retry", "done")) })
	require.Contains(t, s.log.String(), line("cancel", "done"))
	require.Contains(t, s.log.String(), line("cancel", `"cancel push `+id+`: a push that is CANCELLED cannot be cancelled"`))
}
