package handlers_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	"pushq/handlers"
	"pushq/internal/swrvesim"
	"pushq/internal/testenv"
	"pushq/tasks"
)

// Not parallel: it counts the goroutines of the process.
func TestNoGoroutineIsLeftBehind(t *testing.T) {
	w := newWorld(t, swrvesim.Config{})
	before := runtime.NumGoroutine()
	stop := w.work(workforce{pace: time.Millisecond})
	for i := range 500 {
		w.acceptFor(fmt.Sprint(i))
	}
	testenv.Eventually(t, patience, "all pushes to be sent", func() bool { return w.simulator.Stats().Delivered == 500 })
	stop()
	testenv.Eventually(t, patience, "the goroutines to end", func() bool { return runtime.NumGoroutine() <= before+5 })
	for _, queue := range tasks.Swrve.Queues() {
		info, err := w.inspector.GetQueueInfo(queue)
		require.NoError(t, err)
		require.Zero(t, info.Pending+info.Active+info.Scheduled+info.Retry+info.Archived, "%+v", info)
	}
	require.Equal(t, 500, w.simulator.Stats().Requests)
}

// A row is what the record shows of one attempt.
type row struct {
	Status         tasks.AttemptStatus
	ErrorType      tasks.ErrorType
	ErrorCode      int
	Message        string // the beginning of it
	MaybeDelivered bool
	Uncounted      bool
}

var okRow = row{Status: tasks.AttemptOK}

func refused(code int, message string) row {
	return row{Status: tasks.AttemptError, ErrorType: tasks.ErrorSwrve, ErrorCode: code, Message: message}
}

func unanswered(message string) row {
	return row{Status: tasks.AttemptError, ErrorType: tasks.ErrorOther, Message: message, MaybeDelivered: true}
}

// foreign is an answer of 200 that is not the provider's.
func foreign(what string) row {
	row := unanswered("the answer is not Swrve's, see swrve.url (it may have been delivered): " + what)
	row.ErrorCode = 200
	return row
}

// another is an answer of another status that is not the provider's.
func another(status int, what string) row {
	row := refused(status, fmt.Sprintf("the answer is not Swrve's, see swrve.url: %d %s", status, what))
	row.ErrorType = tasks.ErrorOther
	return row
}

func requireRows(t *testing.T, want []row, attempts []tasks.Attempt, about string) {
	t.Helper()
	require.Len(t, attempts, len(want), about)
	for i, attempt := range attempts {
		require.True(t, strings.HasPrefix(attempt.ErrorMessage, want[i].Message), "%s: %q", about, attempt.ErrorMessage)
		if want[i].Message == "" {
			require.Empty(t, attempt.ErrorMessage, about)
		}
		require.Equal(t, want[i], row{
			attempt.Status, attempt.ErrorType, attempt.ErrorCode, want[i].Message, attempt.MaybeDelivered, attempt.Uncounted,
		}, "%s, attempt %d", about, i+1)
		require.NotZero(t, attempt.StartedAt, about)
		if i > 0 {
			require.GreaterOrEqual(t, attempt.StartedAt, attempts[i-1].StartedAt, about)
		}
	}
}

func TestOutcomes(t *testing.T) {
	t.Parallel()
	const changedToken = "Rejected, User Has Changed Token"
	three := func(one row) []row { return []row{one, one, one} }
	tests := []struct {
		user     string
		state    tasks.State
		rows     []row
		outcomes string // as logged
	}{
		{"ann-", tasks.Sent, []row{okRow}, "ok"},
		{"202-", tasks.Sent, []row{okRow}, "ok"},
		{"500x2-", tasks.Sent, []row{refused(500, "Internal"), refused(500, "Internal"), okRow}, "retry retry ok"},
		{"503-", tasks.GivenUp, three(refused(503, "Service Unavailable")), "retry retry give_up"},
		{"429-", tasks.GivenUp, three(refused(429, "Rate Limit Exceeded")), "retry retry give_up"},
		{"400-", tasks.Failed, []row{refused(400, changedToken)}, "fail"},
		{"403-", tasks.Failed, []row{refused(403, "Forbidden")}, "fail"},
		{"301-", tasks.GivenUp, three(another(301, `{"code":301`)), "retry retry give_up"},
		{"html404x1-", tasks.Sent, []row{another(404, "with an HTML page"), okRow}, "retry ok"},
		{"501-", tasks.Failed, []row{refused(501, "Not Implemented")}, "fail"},
		{"body400-", tasks.Failed, []row{refused(400, changedToken)}, "fail"},
		{"body503x1-", tasks.Sent, []row{refused(503, "Service Unavailable"), okRow}, "retry ok"},
		{"500x1-", tasks.Sent, []row{refused(500, "Internal"), okRow}, "retry ok"},
		{"html502x1-", tasks.Sent, []row{refused(502, "<html>"), okRow}, "retry ok"},
		{"text500x1-", tasks.Sent, []row{refused(500, "Internal"), okRow}, "retry ok"},
		{"html200x1-", tasks.Sent, []row{foreign("200 with an HTML page"), okRow}, "retry ok"},
		{"error200-", tasks.GivenUp, three(foreign(`200 {"error":"OK"}`)), "retry retry give_up"},
		{"cut200x1-", tasks.Sent, []row{foreign("200 with a body that broke off"), okRow}, "retry ok"},
		{"hangx1-", tasks.Sent, []row{unanswered("no answer: timeout after 2s (it may have been delivered)"), okRow}, "retry ok"},
		{"resetx1-", tasks.Sent, []row{unanswered("no answer: "), okRow}, "retry ok"},
		{"reset-", tasks.GivenUp, three(unanswered("no answer: ")), "retry retry give_up"},
		{"ok-then-resetx1-", tasks.Sent, []row{unanswered("no answer: "), okRow}, "retry ok"},
	}
	w := newWorld(t, swrvesim.Config{})
	w.work(workforce{timeout: 2 * time.Second})
	ids := make([]string, len(tests))
	for i, test := range tests {
		ids[i] = w.acceptFor(test.user)
	}
	ends := map[tasks.State]string{tasks.GivenUp: tasks.GivenUpPrefix, tasks.Failed: tasks.FailedPrefix}
	for i, test := range tests {
		report := w.await(ids[i], test.state, len(test.rows))
		requireRows(t, test.rows, report.Attempts, test.user)
		require.Zero(t, report.NextAttemptAt)
		for _, attempt := range report.Attempts {
			require.NotNil(t, attempt.Millis, test.user)
			require.Empty(t, attempt.StackTrace, test.user)
			if strings.Contains(attempt.ErrorMessage, "timeout") {
				require.GreaterOrEqual(t, *attempt.Millis, int64(2000))
			}
		}

		requests := w.requests(test.user)
		require.Len(t, requests, len(test.rows), test.user)
		for j := range requests {
			require.Equal(t, campaignKey, requests[j].PushKey)
			require.Equal(t, messageText, requests[j].Message)
			if j > 0 {
				gap := time.Duration(requests[j].MonotonicMicros-requests[j-1].MonotonicMicros) * time.Microsecond
				require.GreaterOrEqual(t, gap, retryDelay, test.user)
			}
		}

		if prefix := ends[test.state]; prefix != "" {
			w.awaitText("swrve", ids[i], prefix)
		}
		var outcomes []string
		for j, line := range w.loggedAttempts(ids[i]) {
			require.Equal(t, "swrve", line["channel"])
			require.EqualValues(t, j+1, line["attempt"])
			require.EqualValues(t, *report.Attempts[j].Millis, line["millis"])
			require.EqualValues(t, report.Attempts[j].ErrorCode, line["error_code"])
			require.EqualValues(t, report.Attempts[j].MaybeDelivered, line["maybe_delivered"])
			outcomes = append(outcomes, line["outcome"].(string))
		}
		require.Equal(t, test.outcomes, strings.Join(outcomes, " "), test.user)
	}
	for _, secret := range []string{campaignKey, messageText, userCanary} {
		require.False(t, strings.Contains(w.log.String(), secret), "%s is logged", secret)
	}
}

func TestAttemptsWithoutARequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	w.work(workforce{})
	noKey := newPush("nobody-")
	noKey.MessagePrototypeKey = "Unknown"
	garbage := tasks.NewID()
	_, err := asynq.NewClientFromRedisClient(w.clients.Queue).Enqueue(
		asynq.NewTask(tasks.Swrve.TaskType(), []byte("{\xff garbage")),
		asynq.TaskID(garbage), asynq.Queue("swrve"), asynq.Timeout(time.Minute))
	require.NoError(t, err)
	for id, want := range map[string]row{
		w.accept(noKey): {
			Status: tasks.AttemptError, ErrorType: tasks.ErrorMessagePrototypeKey,
			Message: `no push key for prototype "Unknown" on IOS`,
		},
		garbage: {Status: tasks.AttemptError, ErrorType: tasks.ErrorOther, Message: "decode the payload of push " + garbage},
	} {
		report := w.await(id, tasks.Failed, 1)
		requireRows(t, []row{want}, report.Attempts, id)
		require.Zero(t, *report.Attempts[0].Millis)
		require.Len(t, w.loggedAttempts(id), 1)
	}
	require.Zero(t, w.simulator.Stats().Requests)
}

// provider replaces parts of a Provider for pushes to certain users.
type provider struct {
	handlers.Provider
	prepare map[string]func()
	send    map[string]func() handlers.Outcome
}

func (p provider) Prepare(ctx context.Context, push tasks.Push) (func() handlers.Outcome, *handlers.Outcome) {
	user := strings.TrimSuffix(push.PushKey, userCanary)
	if prepare := p.prepare[user]; prepare != nil {
		prepare()
	}
	if send := p.send[user]; send != nil {
		return send, nil
	}
	return p.Provider.Prepare(ctx, push)
}

func TestPanics(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	w.work(workforce{provider: func(inner handlers.Provider) handlers.Provider {
		return provider{
			Provider: inner,
			prepare:  map[string]func(){"preparing": func() { panic("boom at preparing") }},
			send:     map[string]func() handlers.Outcome{"sending": func() handlers.Outcome { panic("boom at sending") }},
		}
	}})
	ids := map[string]string{"preparing": w.acceptFor("preparing"), "sending": w.acceptFor("sending")}
	for user, id := range ids {
		report := w.await(id, tasks.Failed, 1)
		requireRows(t, []row{{
			Status: tasks.AttemptError, ErrorType: tasks.ErrorOther, Message: "panic: boom at " + user,
			MaybeDelivered: user == "sending",
		}}, report.Attempts, user)
		require.Contains(t, report.Attempts[0].StackTrace, "TestPanics")
		require.LessOrEqual(t, len(report.Attempts[0].StackTrace), 8<<10)
		require.Len(t, w.loggedAttempts(id), 1)
	}
	w.await(w.acceptFor("ann"), tasks.Sent, 1)
}

// asynq can keep neither a task with a text that is not UTF-8 nor, in numbers,
// one with a long text.
func TestAProvidersTextIsCutForAsynqToo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	binary := strings.Repeat("\xff\x00binary", 10_000)
	answering := func(verdict handlers.Verdict) func() handlers.Outcome {
		return func() handlers.Outcome {
			return handlers.Outcome{Verdict: verdict, ErrorType: tasks.ErrorSwrve, ErrorCode: 502, ErrorMessage: binary}
		}
	}
	w.work(workforce{maxAttempts: 1, provider: func(inner handlers.Provider) handlers.Provider {
		return provider{Provider: inner, send: map[string]func() handlers.Outcome{
			"permanent": answering(handlers.Permanent), "retryable": answering(handlers.Retryable),
		}}
	}})
	ids := map[string]tasks.State{w.acceptFor("permanent"): tasks.Failed, w.acceptFor("retryable"): tasks.GivenUp}
	for id, state := range ids {
		report := w.await(id, state, 1)
		require.LessOrEqual(t, len(report.Attempts[0].ErrorMessage), 1<<10)
		text, err := w.reader.LastError("swrve", id)
		require.NoError(t, err)
		require.Less(t, len(text), 1<<10+50)
		require.True(t, utf8.ValidString(text))
	}
}

// The policy's delay is kept although Redis' clock is behind the host's, by
// which asynq runs retries.
func TestRetriesAreNotEarlyWhereClocksDiffer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	w.work(workforce{clock: slowClock(1900 * time.Millisecond)})
	w.await(w.acceptFor("503x1-"), tasks.Sent, 2)
	requests := w.requests("503x1-")
	require.Len(t, requests, 2)
	require.GreaterOrEqual(t, requests[1].MonotonicMicros-requests[0].MonotonicMicros, retryDelay.Microseconds())
}

func TestRetryAfterBrakesEveryone(t *testing.T) {
	t.Parallel()
	const pause = 2 * time.Second
	w := newWorld(t, swrvesim.Config{})
	w.work(workforce{})
	throttled := w.acceptFor("429after2-")
	report := w.await(throttled, tasks.Retry, 1)
	require.WithinDuration(t, report.Attempts[0].StartedAt.Time().Add(pause), report.NextAttemptAt, time.Minute)
	other := w.acceptFor("ann")
	report = w.await(throttled, tasks.Sent, 2)
	requireRows(t, []row{refused(429, "Rate Limit Exceeded"), okRow}, report.Attempts, "429after2-")
	w.await(other, tasks.Sent, 1)

	ledger := w.simulator.Ledger()
	require.Len(t, ledger, 3)
	for _, request := range ledger[1:] {
		require.GreaterOrEqual(t, request.MonotonicMicros-ledger[0].MonotonicMicros, pause.Microseconds(), request.User)
	}
	speed, err := w.clients.Read.HGet(t.Context(), tasks.Swrve.PaceKey(), "speed").Float64()
	require.NoError(t, err)
	require.InDelta(t, 0.8, speed, 0.001, "the pace is lower as well")
}

func TestRetryAfterOfABusyProviderDelaysThatPushOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	w.work(workforce{})
	busy := w.acceptFor("503after4-")
	report := w.await(busy, tasks.Retry, 1)
	require.Greater(t, report.NextAttemptAt.Sub(report.Attempts[0].StartedAt.Time()), 4*time.Second-time.Millisecond)
	w.await(w.acceptFor("ann"), tasks.Sent, 1)
	require.Equal(t, tasks.Retry, w.await(busy, tasks.Retry, 1).State)
}
