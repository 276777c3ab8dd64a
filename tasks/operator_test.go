package tasks

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"pushq/internal/redisconn"
	"pushq/internal/testenv"
	"pushq/scheduler"
)

type fixedClock time.Time

func (c fixedClock) Now() time.Time { return time.Time(c) }

// operator acts on the desk's pushes at the given time.
func (d *desk) operator(now time.Time) *Operator {
	return NewOperator(d.client, d.channel, testRetention, d.reader, time.UTC, fixedClock(now))
}

// operatorBehind has connections of its own, through a proxy.
func (d *desk) operatorBehind(proxy *testenv.Proxy, now time.Time) *Operator {
	clients, err := redisconn.Open(proxy.URL(), 0)
	require.NoError(d.t, err)
	d.t.Cleanup(func() { _ = clients.Close() })
	reader := NewReader(clients.Read, Swrve, NewRecords(clients.Read, Swrve, testRetention))
	return NewOperator(clients.Read, Swrve, testRetention, reader, time.UTC, fixedClock(now))
}

// inState brings a push into a state, without a worker that would take it
// further. Ended ones have asynq's task with the text of the end.
func (d *desk) inState(state State) Push {
	push := d.own(newPush())
	switch state {
	case Scheduled:
		return d.accept(newWindowedPush(time.Now().Add(time.Hour)))
	case Pending:
		return d.accept(push)
	case Cancelled:
		d.accept(push)
		require.NoError(d.t, d.operator(time.Now()).Cancel(d.t.Context(), push.ID))
		return push
	case InMemory:
		push = d.own(pushSaying("hold"))
	case Retry:
		push = d.own(pushSaying("attempt failed: SWRVE 503"))
		d.attempt(push, AttemptError, "")
	case Sent:
		push = d.own(pushSaying(""))
		d.attempt(push, AttemptOK, Sent)
	case GivenUp:
		push = d.own(pushSaying(GivenUpPrefix + "SWRVE 503"))
		d.attempt(push, AttemptError, GivenUp)
	case Failed:
		push = d.own(pushSaying(FailedPrefix + "SWRVE 400"))
		d.attempt(push, AttemptError, Failed)
	}
	d.accept(push)
	d.runUntil(push, state)
	return push
}

// runUntil has a worker run the push once.
func (d *desk) runUntil(push Push, state State) {
	worker := asynq.NewServerFromRedisClient(d.server.Client(d.t), asynq.Config{
		Queues:            map[string]int{d.channel.queue(push): 1},
		TaskCheckInterval: time.Millisecond, LogLevel: asynq.FatalLevel,
		RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return time.Hour },
	})
	held, release := make(chan struct{}), make(chan struct{})
	require.NoError(d.t, worker.Start(asynq.HandlerFunc(func(_ context.Context, task *asynq.Task) error {
		switch run, _ := DecodePush("", task.Payload()); {
		case run.Message == "hold":
			close(held)
			<-release
			return nil
		case strings.HasPrefix(run.Message, "attempt"):
			return retryText(run.Message)
		case run.Message == "":
			return nil
		default:
			return endedText(run.Message)
		}
	})))
	if state == InMemory {
		<-held
		d.t.Cleanup(func() { close(release); worker.Shutdown() })
		return
	}
	testenv.Eventually(d.t, 10*time.Second, "the run to end", func() bool {
		task, err := d.inspector.GetTaskInfo(d.channel.queue(push), push.ID)
		return err == nil && task.State != asynq.TaskStatePending && task.State != asynq.TaskStateActive
	})
	worker.Shutdown()
	require.Equal(d.t, state, d.get(push.ID).State)
}

func (d *desk) listed(state State, id string) bool {
	page, err := d.reader.List(d.t.Context(), state, MaxPage, "")
	require.NoError(d.t, err)
	for _, report := range page.Reports {
		if report.Push.ID == id {
			return true
		}
	}
	return false
}

// A worker that had the push in hand when it was cancelled may have put it back.
func TestACancelledPushThatWaitsToBeRefused(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	push := d.inState(Retry)
	require.NoError(t, NewRecords(d.client, d.channel, testRetention).End(t.Context(), push, Cancelled))
	report := d.get(push.ID)
	require.Equal(t, Cancelled, report.State)
	require.Zero(t, report.NextAttemptAt)
	require.True(t, d.listed(Cancelled, push.ID))
	require.False(t, d.listed(Retry, push.ID))
	require.NoError(t, d.operator(time.Now()).Retry(t.Context(), push.ID))
	require.Equal(t, Pending, d.get(push.ID).State)
}

func TestRetryInEveryState(t *testing.T) {
	t.Parallel()
	for _, state := range States() {
		t.Run(string(state), func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			push := d.inState(state)
			// A time at which the scheduled push is due and its window open.
			at := time.Date(2040, 1, 4, 12, 0, 0, 0, time.UTC)
			before := d.get(push.ID)
			err := d.operator(at).Retry(t.Context(), push.ID)
			switch state {
			case Pending, InMemory, Sent:
				var wrong *StateError
				require.ErrorAs(t, err, &wrong)
				require.Equal(t, StateError{Action: "retried", State: state}, *wrong)
				require.Equal(t, before, d.get(push.ID))
				return
			}
			require.NoError(t, err)
			after := d.get(push.ID)
			require.Equal(t, Pending, after.State)
			require.Equal(t, before.Attempts, after.Attempts)
			require.False(t, d.listed(state, push.ID))
			require.True(t, d.listed(Pending, push.ID))
			record, err := d.records.Get(t.Context(), push.ID)
			require.NoError(t, err)
			if record != nil {
				require.Empty(t, record.End)
				require.Equal(t, len(before.Attempts), record.BudgetFrom)
			}
			begun, err := d.records.Begin(t.Context(), Attempting{Push: push, Token: "again", Interrupted: time.Hour, MaxAttempts: 3})
			require.NoError(t, err)
			require.Equal(t, Begun{Answer: Go, Attempt: len(before.Attempts) + 1, Counted: 1}, begun)
		})
	}
}

func TestCancelInEveryState(t *testing.T) {
	t.Parallel()
	for _, state := range States() {
		t.Run(string(state), func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			push := d.inState(state)
			before := d.get(push.ID)
			err := d.operator(time.Now()).Cancel(t.Context(), push.ID)
			switch state {
			case Scheduled, Pending, Retry:
			default:
				var wrong *StateError
				require.ErrorAs(t, err, &wrong)
				require.Equal(t, StateError{Action: "cancelled", State: state}, *wrong)
				require.Equal(t, before, d.get(push.ID))
				return
			}
			require.NoError(t, err)
			after := d.get(push.ID)
			require.Equal(t, Report{Push: push, State: Cancelled, Attempts: before.Attempts, ended: true}, after)
			require.True(t, d.listed(Cancelled, push.ID))
			require.False(t, d.listed(state, push.ID))
			task, err := d.inspector.GetTaskInfo(Swrve.queue(push), push.ID)
			require.NoError(t, err)
			require.Equal(t, asynq.TaskStateArchived, task.State)
			require.NoError(t, d.operator(time.Date(2040, 1, 4, 12, 0, 0, 0, time.UTC)).Retry(t.Context(), push.ID))
			require.Equal(t, Pending, d.get(push.ID).State)
		})
	}
}

func TestAPushThatIsNotThere(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for _, id := range []string{"", "*", NewID(), strings.ToLower(NewID())} {
		require.ErrorIs(t, d.operator(time.Now()).Retry(t.Context(), id), ErrNotFound, "%q", id)
		require.ErrorIs(t, d.operator(time.Now()).Cancel(t.Context(), id), ErrNotFound, "%q", id)
	}
	require.Zero(t, d.client.Exists(t.Context(), Swrve.DeadKey()).Val())
}

func TestRetryDoesNotOpenAWindow(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	push := d.inState(Scheduled) // 9:00 to 17:59:59 in Stockholm
	refused := func(now, opening time.Time) {
		t.Helper()
		var closed *ClosedError
		require.ErrorAs(t, d.operator(now).Retry(t.Context(), push.ID), &closed)
		require.Equal(t, Scheduled, closed.State)
		require.True(t, opening.Equal(closed.NextOpening), closed.NextOpening)
	}
	refused(time.Now(), push.DueAt.Time())
	refused(time.Date(2040, 1, 4, 20, 0, 0, 0, time.UTC), time.Date(2040, 1, 5, 8, 0, 0, 0, time.UTC))
	require.Equal(t, Scheduled, d.get(push.ID).State)

	gone := newWindowedPush(time.Now().Add(time.Hour))
	gone.CronExpression = "* * * * * ? 2039"
	push = d.accept(gone)
	refused(time.Date(2040, 1, 4, 12, 0, 0, 0, time.UTC), time.Time{})
}

// A cancel can be taken back while the window is closed, however the push was cancelled and
// whatever it was before: it waits for the window again.
func TestACancelIsTakenBackWhileTheWindowIsClosed(t *testing.T) {
	now := time.Date(2040, 1, 4, 20, 0, 0, 0, time.UTC)
	next := time.Date(2040, 1, 5, 8, 0, 0, 0, time.UTC) // 9:00 in Stockholm
	cancel := map[string]func(d *desk, push Push){
		"cancelled": func(d *desk, push Push) {
			require.NoError(d.t, d.operator(now).Cancel(d.t.Context(), push.ID))
		},
		"cancelled with many": func(d *desk, push Push) {
			sum, err := d.operator(now).CancelAll(d.t.Context(), Filter{State: d.get(push.ID).State}, MaxBulk, "")
			require.NoError(d.t, err)
			require.Equal(d.t, Bulk{Matched: 1, Done: 1}, sum)
		},
		"archived with asynq's tools": func(d *desk, push Push) {
			require.NoError(d.t, d.inspector.ArchiveTask(Swrve.WindowQueue(), push.ID))
		},
	}
	retry := map[string]func(d *desk, id string){
		"one": func(d *desk, id string) { require.NoError(d.t, d.operator(now).Retry(d.t.Context(), id)) },
		"many": func(d *desk, _ string) {
			sum, err := d.operator(now).RetryAll(d.t.Context(), Filter{State: Cancelled}, MaxBulk, "")
			require.NoError(d.t, err)
			require.Equal(d.t, Bulk{Matched: 1, Done: 1}, sum)
		},
	}
	t.Parallel()
	for cancelled, cancel := range cancel {
		for retried, retry := range retry {
			for _, before := range []State{Scheduled, Retry} {
				t.Run(fmt.Sprintf("%s while %s, %s retried", cancelled, before, retried), func(t *testing.T) {
					t.Parallel()
					d := newDesk(t)
					push := newWindowedPush(time.Now().Add(-time.Minute))
					if before == Retry {
						push.Message = "attempt failed: SWRVE 503"
						d.attempt(push, AttemptError, "")
						d.accept(push)
						d.runUntil(push, Retry)
					} else {
						push.DueAt = MillisOf(time.Now().Add(time.Hour))
						d.accept(push)
					}
					cancel(d, push)
					d.requireState(Cancelled, push.ID)
					retry(d, push.ID)
					after := d.requireState(Scheduled, push.ID)
					require.True(t, next.Equal(after.NextAttemptAt), after.NextAttemptAt)
					require.True(t, d.listed(Scheduled, push.ID))
					require.False(t, d.listed(Cancelled, push.ID))
					require.Zero(t, d.client.ZCard(t.Context(), Swrve.DeadKey()).Val())
					begun, err := d.records.Begin(t.Context(), Attempting{Push: push, Token: "again", Interrupted: time.Hour, MaxAttempts: 3})
					require.NoError(t, err)
					require.Equal(t, Go, begun.Answer)
					require.Equal(t, 1, begun.Counted, "as many attempts as a new push")
					require.NoError(t, d.inspector.RunTask(Swrve.WindowQueue(), push.ID), "asynq has hold of it")
					d.requireNoGhosts()
				})
			}
		}
	}
}

// What is known of a push must not be forgotten while its task waits for the opening, and
// its key must not be free for other content.
func TestACancelThatIsTakenBackIsKeptUntilTheOpening(t *testing.T) {
	t.Parallel()
	now := time.Date(2040, 1, 4, 20, 0, 0, 0, time.UTC)
	opening := time.Date(2040, 1, 5, 8, 0, 0, 0, time.UTC) // 9:00 in Stockholm
	for name, lose := range map[string]func(d *desk, push Push){
		"its task is archived": func(*desk, Push) {},
		"its task is gone": func(d *desk, push Push) {
			require.NoError(d.t, d.inspector.DeleteTask(Swrve.WindowQueue(), push.ID))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			push := newWindowedPush(time.Now().Add(time.Hour))
			intake := NewIntake(d.client, Swrve, testRetention)
			t.Cleanup(intake.Close)
			accept := func(push Push) error {
				_, err := intake.Accept(t.Context(), push, true)
				return err
			}
			require.NoError(t, accept(push))
			require.NoError(t, d.operator(now).Cancel(t.Context(), push.ID))
			lose(d, push)
			require.NoError(t, d.operator(now).Retry(t.Context(), push.ID))
			require.True(t, opening.Equal(d.requireState(Scheduled, push.ID).NextAttemptAt))
			for _, key := range []string{Swrve.RecordKey(push.ID), Swrve.ClaimKey(push.ID)} {
				require.Greater(t, d.client.TTL(t.Context(), key).Val(), time.Until(opening), key)
			}
			push.Message = "something else"
			require.ErrorIs(t, accept(push), ErrContentDiffers)
		})
	}
}

// An instant fixes the first try: a push that was cancelled before waits for it again.
func TestACancelIsTakenBackBeforeItsInstant(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	push := newWindowedPush(time.Now().Add(time.Hour))
	push.CronExpression, push.Held = "0 0 10 * * ?", false
	push.DueAt += 1 // asynq keeps seconds, and it must not be early
	d.accept(push)
	require.NoError(t, d.operator(time.Now()).Cancel(t.Context(), push.ID))
	require.NoError(t, d.operator(time.Now()).Retry(t.Context(), push.ID))
	after := d.requireState(Scheduled, push.ID)
	require.Equal(t, scheduler.CeilSecond(push.DueAt.Time()), after.NextAttemptAt)
}

// What has failed was not stopped by anybody: whoever retries it wants it sent now.
func TestOthersAreNotRetriedWhileTheWindowIsClosed(t *testing.T) {
	t.Parallel()
	now := time.Date(2040, 1, 4, 20, 0, 0, 0, time.UTC)
	for _, state := range []State{Failed, GivenUp, Retry} {
		d := newDesk(t)
		push := newWindowedPush(time.Now().Add(-time.Minute))
		push.Message = map[State]string{Failed: FailedPrefix, GivenUp: GivenUpPrefix, Retry: "attempt failed: "}[state] + "SWRVE 400"
		d.attempt(push, AttemptError, map[State]State{Failed: Failed, GivenUp: GivenUp}[state])
		d.accept(push)
		d.runUntil(push, state)
		var closed *ClosedError
		require.ErrorAs(t, d.operator(now).Retry(t.Context(), push.ID), &closed)
		require.Equal(t, state, closed.State)
		require.True(t, time.Date(2040, 1, 5, 8, 0, 0, 0, time.UTC).Equal(closed.NextOpening))
		d.requireState(state, push.ID)
	}

	d := newDesk(t)
	gone := newWindowedPush(time.Now().Add(time.Hour))
	gone.CronExpression = "* * * * * ? 2039"
	d.accept(gone)
	require.NoError(t, d.operator(now).Cancel(t.Context(), gone.ID))
	var closed *ClosedError
	require.ErrorAs(t, d.operator(now).Retry(t.Context(), gone.ID), &closed)
	require.Equal(t, &ClosedError{State: Cancelled}, closed)
}

func TestRetryOfAPushThatAsynqHasForgotten(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		require.NoError(t, RegisterQueues(t.Context(), client, Swrve))
		reader := NewReader(client, Swrve, NewRecords(client, Swrve, testRetention))
		operator := NewOperator(client, Swrve, testRetention, reader, time.UTC, fixedClock(time.Date(2040, 1, 4, 12, 0, 0, 0, time.UTC)))
		inspector := asynq.NewInspectorFromRedisClient(client)
		for _, end := range []State{Failed, GivenUp, Cancelled, ""} { // deleted with asynq's tools
			for _, push := range []Push{newPush(), newTracedPush(), newWindowedPush(time.Now().Add(time.Hour))} {
				s := newStory(t, client)
				s.push = push
				s.begun("a")
				s.fail("a", end)
				require.NoError(t, operator.Retry(t.Context(), push.ID))

				task, err := inspector.GetTaskInfo(Swrve.queue(push), push.ID)
				require.NoError(t, err)
				require.Equal(t, asynq.TaskStatePending, task.State)
				require.Equal(t, maxRetry, task.MaxRetry)
				require.Equal(t, taskTimeout, task.Timeout)
				require.Equal(t, testRetention.Completed, task.Retention)
				queued, err := pushOf(push.ID, task)
				require.NoError(t, err)
				require.Equal(t, push, queued)
				require.Equal(t, &Record{Push: push, Attempts: s.record().Attempts, BudgetFrom: 1}, s.record())
			}
		}
	})
}

func TestCancelAndRetryOnEachRedis(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		require.NoError(t, RegisterQueues(t.Context(), client, Swrve))
		reader := NewReader(client, Swrve, NewRecords(client, Swrve, testRetention))
		operator := NewOperator(client, Swrve, testRetention, reader, time.UTC, fixedClock(time.Now()))
		push := newPush()
		_, err := NewIntake(client, Swrve, testRetention).Accept(t.Context(), push, true)
		require.NoError(t, err)
		state := func() State {
			report, err := reader.Get(t.Context(), push.ID)
			require.NoError(t, err)
			return report.State
		}
		claim := func() Claim {
			claim, err := NewIntake(client, Swrve, testRetention).Claim(t.Context(), push)
			require.NoError(t, err)
			return claim
		}
		for range 2 {
			require.NoError(t, operator.Cancel(t.Context(), push.ID))
			require.Equal(t, Cancelled, state())
			require.Equal(t, ClaimEnded, claim())
			require.NoError(t, operator.Retry(t.Context(), push.ID))
			require.Equal(t, Pending, state())
			require.Equal(t, ClaimEnded, claim(), "a repeated POST must not send what was retried")
		}
	})
}

// The process may die between the record and the task: both actions can be
// repeated.
func TestActionsThatWereCutShort(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	failed := d.inState(Failed)
	record, err := d.records.Get(t.Context(), failed.ID)
	require.NoError(t, err)
	s := &story{t: t, ctx: t.Context(), client: d.client, records: d.records, push: failed}
	require.Empty(t, s.retryRecord(record.EndedAt))
	// It looks like one that was archived by hand after a retry.
	require.Equal(t, Cancelled, d.get(failed.ID).State)
	require.True(t, d.listed(Cancelled, failed.ID))
	require.NoError(t, d.operator(time.Now()).Retry(t.Context(), failed.ID))
	require.Equal(t, Pending, d.get(failed.ID).State)

	pending := d.inState(Pending)
	s.push = pending
	require.Equal(t, string(Cancelled), s.cancelRecord(0))
	require.Equal(t, Pending, d.get(pending.ID).State)
	require.NoError(t, d.operator(time.Now()).Cancel(t.Context(), pending.ID))
	require.Equal(t, Cancelled, d.get(pending.ID).State)
}

func TestRetryWhileTheTaskIsTakenOutOfTheArchive(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	push := d.inState(Failed)
	task, err := d.inspector.GetTaskInfo(Swrve.ImmediateQueue(), push.ID)
	require.NoError(t, err)
	require.NoError(t, d.inspector.DeleteTask(Swrve.ImmediateQueue(), push.ID))
	require.NoError(t, d.operator(time.Now()).queue(t.Context(), task, push, time.Time{}))
	require.Equal(t, Pending, d.get(push.ID).State)
	record, err := d.records.Get(t.Context(), push.ID)
	require.NoError(t, err)
	require.Empty(t, record.End)
}

func TestRetryWhileSomebodyElseIsQuicker(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	push := d.inState(Pending)
	task, err := d.inspector.GetTaskInfo(Swrve.ImmediateQueue(), push.ID)
	require.NoError(t, err)
	for _, seen := range []*asynq.TaskInfo{task, nil} {
		var wrong *StateError
		require.ErrorAs(t, d.operator(time.Now()).queue(t.Context(), seen, push, time.Time{}), &wrong)
		require.Equal(t, StateError{Action: "retried", State: Pending}, *wrong)
	}
}

// Somebody else has stored a task that was forgotten, and it has moved on since.
func TestRetryWhileSomebodyElseHasStoredTheTask(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for _, state := range []State{Scheduled, Retry, Failed, Cancelled} {
		var wrong *StateError
		require.ErrorAs(t, d.operator(time.Now()).queue(t.Context(), nil, d.inState(state), time.Time{}), &wrong, state)
		require.Equal(t, StateError{Action: "retried", State: state}, *wrong)
	}
}

// A task whose content is gone is the doctor's.
func TestATaskWithoutContent(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	push := d.inState(Retry)
	require.NoError(t, d.client.HDel(t.Context(), asynqTaskKey(Swrve.ImmediateQueue(), push.ID), "msg").Err())
	for _, act := range []func(context.Context, string) error{d.operator(time.Now()).Retry, d.operator(time.Now()).Cancel} {
		err := act(t.Context(), push.ID)
		require.ErrorIs(t, err, ErrUnreadable)
		require.ErrorContains(t, err, "pushq doctor --fix")
	}
}

// A worker may take the push after the operator has looked.
func TestCancelOfAPushThatAWorkerHasJustTaken(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	push := d.inState(InMemory)
	task, err := d.inspector.GetTaskInfo(Swrve.ImmediateQueue(), push.ID)
	require.NoError(t, err)
	require.Error(t, d.inspector.ArchiveTask(Swrve.ImmediateQueue(), push.ID))

	operator := d.operator(time.Now())
	require.NoError(t, operator.archive(t.Context(), task.Queue, push.ID))
	// Or after it has been run and forgotten.
	require.NoError(t, operator.archive(t.Context(), task.Queue, NewID()))
	// Or somebody else may have run it.
	var wrong *StateError
	require.ErrorAs(t, operator.queue(t.Context(), task, push, time.Time{}), &wrong)
	require.Equal(t, InMemory, wrong.State)
}

func TestOperatingWhileRedisTakesNoWrites(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	failed, pending := d.inState(Failed), d.inState(Pending)
	operator := d.operator(time.Now())
	require.NoError(t, d.client.ConfigSet(t.Context(), "maxmemory", "1").Err())
	require.ErrorIs(t, operator.Retry(t.Context(), failed.ID), ErrStoreFull)
	require.ErrorIs(t, operator.Cancel(t.Context(), pending.ID), ErrStoreFull)
	require.NoError(t, d.client.ConfigSet(t.Context(), "maxmemory", "0").Err())
	d.requireState(Failed, failed.ID)
	d.requireState(Pending, pending.ID)
}

func TestOperatingWithoutRedis(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	push := d.inState(Pending)
	proxy := testenv.NewProxy(t, d.server.Addr())
	operator := d.operatorBehind(proxy, time.Now())

	require.NoError(t, cancelScript.Load(t.Context(), d.client).Err())
	proxy.CutReplyTo(cancelScript.Hash(), 1)
	require.ErrorIs(t, operator.Cancel(t.Context(), push.ID), ErrIncomplete)
	require.Equal(t, 1, proxy.Cut())
	require.NoError(t, operator.Cancel(t.Context(), push.ID), "it may be repeated")
	require.Equal(t, Cancelled, d.get(push.ID).State)

	proxy.SetLatency(time.Second)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, operator.Retry(ctx, push.ID), ErrIncomplete)
	proxy.SetLatency(0)
	d.requireState(Pending, push.ID)

	d.server.Stop()
	require.ErrorIs(t, operator.Retry(t.Context(), push.ID), ErrUnreadable)
	require.ErrorIs(t, operator.Cancel(t.Context(), push.ID), ErrUnreadable)
}

// Close waits for what its caller has given up: the clients are closed next.
func TestAClosedOperatorHasFinished(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	push := d.inState(Failed)
	proxy := testenv.NewProxy(t, d.server.Addr())
	operator := d.operatorBehind(proxy, time.Now())

	proxy.SetLatency(100 * time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, operator.Retry(ctx, push.ID), ErrIncomplete)
	operator.Close()
	require.Equal(t, Pending, d.get(push.ID).State)

	require.ErrorIs(t, operator.Cancel(t.Context(), push.ID), ErrUnreadable)
	_, err := operator.CancelAll(t.Context(), Filter{State: Pending}, MaxBulk, "")
	require.ErrorIs(t, err, ErrUnreadable)
	require.Equal(t, Pending, d.get(push.ID).State)
}
