package handlers_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"pushq/internal/limiter"
	"pushq/internal/swrvesim"
	"pushq/internal/testenv"
	"pushq/tasks"
)

func TestRequeueingWithAsynqsTools(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	var stopped atomic.Bool // defers what comes
	keeper := &slotKeeper{wait: func(int) (limiter.Slot, error) {
		if stopped.Load() {
			return limiter.Slot{}, limiter.ErrStopped
		}
		return limiter.Slot{}, nil
	}}
	w.work(workforce{maxAttempts: 2, slots: keeper.over})
	gaveUp, failed, mended := w.acceptFor("503-"), w.acceptFor("400-"), w.acceptFor("503x2-")
	w.await(failed, tasks.Failed, 1)
	w.await(gaveUp, tasks.GivenUp, 2)
	w.await(mended, tasks.GivenUp, 2)

	for more := 1; more <= 2; more++ {
		require.NoError(t, w.inspector.RunTask("swrve", gaveUp))
		require.NoError(t, w.inspector.RunTask("swrve", failed))
		require.Len(t, w.await(gaveUp, tasks.GivenUp, 2+more).Attempts, 2+more, "exactly one more")
		require.Len(t, w.await(failed, tasks.Failed, 1+more).Attempts, 1+more, "exactly one more")
	}
	w.awaitText("swrve", gaveUp, "given up: SWRVE 503")

	stopped.Store(true)
	require.NoError(t, w.inspector.RunTask("swrve", mended))
	w.awaitText("swrve", mended, "deferred: shutdown")
	require.Equal(t, tasks.Pending, w.await(mended, tasks.Pending, 2).State)
	stopped.Store(false)
	requireRows(t, []row{refused(503, "Service"), refused(503, "Service"), okRow},
		w.await(mended, tasks.Sent, 3).Attempts, "a deferral does not use the attempt up")

	require.Len(t, w.requests("503-"), 4)
	require.Len(t, w.requests("400-"), 3)
	require.Len(t, w.requests("503x2-"), 3)
	dead, err := w.clients.Read.ZRange(t.Context(), tasks.Swrve.DeadKey(), 0, -1).Result()
	require.NoError(t, err)
	require.ElementsMatch(t, []string{gaveUp, failed}, dead)
}

// The record has the push's end, but asynq has not got the answer: the worker
// died in between.
func TestAWorkerDiesAfterTheEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	w.work(workforce{maxAttempts: 1, handler: afterwards(func(run int, _ error) error {
		if run == 0 {
			return asynq.ErrLeaseExpired // what asynq's recoverer makes of it
		}
		return errNone
	})})
	for user, end := range map[string]struct {
		state      tasks.State
		queue      string
		expression string
		text       string
	}{
		"400-": {tasks.Failed, "swrve", "", "failed: as the record says"},
		"503-": {tasks.GivenUp, "swrve", "", "given up: as the record says"},
		"bob-": {tasks.Sent, "swrve", "", ""},                                              // completed with the record: nothing is in between
		"ann-": {tasks.Sent, "swrve-window", "* * * * * ?", asynq.ErrLeaseExpired.Error()}, // left over in a completed task
	} {
		push := newPush(user)
		push.CronExpression = end.expression
		id := w.accept(push)
		w.awaitText(end.queue, id, end.text)
		require.Len(t, w.await(id, end.state, 1).Attempts, 1)
		testenv.EventuallyNoError(t, patience, func() error {
			task, err := w.inspector.GetTaskInfo(end.queue, id)
			if err == nil && task.State != asynq.TaskStateArchived && task.State != asynq.TaskStateCompleted {
				err = errors.New(task.State.String())
			}
			return err
		})
		require.Len(t, w.requests(user), 1)
		require.Len(t, w.loggedAttempts(id), 1)
	}
	requireOnlyFailures(t, w, 2)
}

// The worker died between the two ends, and the push was put back before that, or is put
// back before its record is read again: nobody has requeued it.
func TestAWorkerDiesAfterTheEndOfAPushThatHasWaited(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		deferrals map[int]bool // by the number of the run
		crash     error        // what is left of the run that ends the push, with the task
	}{
		"before":     {map[int]bool{0: true}, errors.New("deferred: shutdown")}, // as asynq's own requeue leaves it
		"after":      {map[int]bool{2: true}, asynq.ErrLeaseExpired},
		"both":       {map[int]bool{0: true, 2: true, 3: true}, errors.New("deferred: shutdown")},
		"in a probe": {map[int]bool{2: true}, errors.New("deferred: breaker: the probe failed: no")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, swrvesim.Config{})
			var runs, ends atomic.Int32
			keeper := &slotKeeper{wait: func(int) (limiter.Slot, error) {
				if test.deferrals[int(runs.Load())-1] {
					return limiter.Slot{}, limiter.ErrStopped
				}
				return limiter.Slot{}, nil
			}}
			w.work(workforce{maxAttempts: 1, slots: keeper.over, handler: func(handler asynq.Handler) asynq.Handler {
				return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
					runs.Add(1)
					answer := handler.ProcessTask(ctx, task)
					if errors.Is(answer, asynq.SkipRetry) && ends.Add(1) == 1 {
						return test.crash
					}
					return answer
				})
			}})
			id := w.acceptFor("503-")
			w.awaitText("swrve", id, "given up: as the record says")
			made := slices.DeleteFunc(w.await(id, tasks.GivenUp, 1).Attempts, func(attempt tasks.Attempt) bool { return attempt.Uncounted })
			require.Len(t, made, 1, "a busy machine may withdraw others")
			require.Len(t, w.requests("503-"), 1)
			require.EqualValues(t, 2, ends.Load())
		})
	}
}

// A push that was requeued with asynq's tools, and put back before its attempt, may have its
// worker die then: the attempt is still to come.
func TestARequeuedPushWaitsAndItsWorkerDies(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	var runs atomic.Int32
	keeper := &slotKeeper{wait: func(int) (limiter.Slot, error) {
		if runs.Load() == 2 {
			return limiter.Slot{}, limiter.ErrStopped
		}
		return limiter.Slot{}, nil
	}}
	w.work(workforce{maxAttempts: 1, slots: keeper.over, handler: func(handler asynq.Handler) asynq.Handler {
		return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
			if runs.Add(1) == 3 {
				return asynq.ErrLeaseExpired
			}
			return handler.ProcessTask(ctx, task)
		})
	}})
	id := w.acceptFor("503x1-")
	w.await(id, tasks.GivenUp, 1)
	w.awaitText("swrve", id, "given up: SWRVE 503")
	require.NoError(t, w.inspector.RunTask("swrve", id))
	requireRows(t, []row{refused(503, "Service"), okRow}, w.await(id, tasks.Sent, 2).Attempts, "one more")
	require.EqualValues(t, 4, runs.Load())
}

// Redis may fail to answer just when the one more attempt begins: an operator has run the
// push again all the same.
func TestARequeuedPushWhoseAttemptCannotBeginAtOnce(t *testing.T) {
	t.Parallel()
	for name, carriedOut := range map[string]bool{"not begun": false, "begun, without an answer": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, swrvesim.Config{})
			cut := &againCut{carriedOut: carriedOut}
			client := w.redis.Client(t)
			client.AddHook(cut)
			w.work(workforce{maxAttempts: 1, recordsClient: client})
			id := w.acceptFor("503x1-")
			w.await(id, tasks.GivenUp, 1)
			w.awaitText("swrve", id, "given up: SWRVE 503")
			require.NoError(t, w.inspector.RunTask("swrve", id))
			sent := w.await(id, tasks.Sent, 2).Attempts
			requireRows(t, []row{refused(503, "Service"), okRow}, []tasks.Attempt{sent[0], sent[len(sent)-1]}, "one more")
			require.Len(t, w.requests("503x1-"), 2)
			require.True(t, cut.done.Load())
		})
	}
}

// againCut fails the first call of Begin that begins an attempt after the end.
type againCut struct {
	carriedOut bool
	done       atomic.Bool
}

func (c *againCut) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *againCut) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (c *againCut) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		const keys = 4 // begin.lua has as many only then
		arguments := command.Args()
		begins := len(arguments) > 3+keys && arguments[2] == keys && arguments[5] == tasks.Swrve.BrakeKey()
		if !begins || c.done.Load() {
			return next(ctx, command)
		}
		if c.carriedOut {
			if err := next(ctx, command); err != nil {
				return err // the script is not loaded yet: the next call has it
			}
		}
		c.done.Store(true)
		err := errors.New("i/o timeout")
		command.SetErr(err)
		return err
	}
}

// requireOnlyFailures asks asynq's statistics, in which every archived task
// counts as a failure.
func requireOnlyFailures(t *testing.T, w *world, want int) {
	t.Helper()
	info, err := w.inspector.GetQueueInfo("swrve")
	require.NoError(t, err)
	require.Equal(t, want, info.FailedTotal)
}

func TestLostLeasesCountNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	const lost = 2
	var runs atomic.Int32
	w.work(workforce{maxAttempts: 1, handler: func(handler asynq.Handler) asynq.Handler {
		return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
			if runs.Add(1) <= lost {
				return asynq.ErrLeaseExpired
			}
			return handler.ProcessTask(ctx, task)
		})
	}})
	id := w.acceptFor("ann")
	require.Equal(t, tasks.Retry, w.await(id, tasks.Retry, 0).State)
	requireRows(t, []row{okRow}, w.await(id, tasks.Sent, 1).Attempts, "ann")
	require.EqualValues(t, lost+1, runs.Load())
	requireNoFailures(t, w)
}

func interrupted() row {
	return row{Status: tasks.AttemptError, ErrorType: tasks.ErrorOther, Message: "interrupted: ", MaybeDelivered: true}
}

func TestInterruptedAttemptsCount(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	onceMore, noMore := newPush("once more"), newPush("no more")
	w.begin(onceMore, "first", time.Hour)
	w.age(onceMore.ID)
	w.begin(onceMore, "second", time.Minute)
	w.age(onceMore.ID)
	for _, token := range []string{"first", "second", "third"} {
		w.begin(noMore, token, time.Minute)
		w.age(noMore.ID)
	}
	w.work(workforce{})
	w.accept(onceMore)
	w.accept(noMore)
	requireRows(t, []row{interrupted(), interrupted(), okRow}, w.await(onceMore.ID, tasks.Sent, 3).Attempts, "once more")
	requireRows(t, []row{interrupted(), interrupted(), interrupted()}, w.await(noMore.ID, tasks.GivenUp, 3).Attempts, "no more")
	w.awaitText("swrve", noMore.ID, "given up: no attempts are left")
	require.Empty(t, w.requests("no more"))

	lines := w.loggedAttempts(onceMore.ID)
	require.Len(t, lines, 2)
	require.Equal(t, []any{"interrupted", 2.0, "ok", 3.0},
		[]any{lines[0]["outcome"], lines[0]["attempt"], lines[1]["outcome"], lines[1]["attempt"]})
	record, err := w.records.Get(t.Context(), noMore.ID)
	require.NoError(t, err)
	require.Equal(t, tasks.GivenUp, record.End)

	// Requeued, it gets one attempt.
	require.NoError(t, w.inspector.RunTask("swrve", noMore.ID))
	requireRows(t, []row{interrupted(), interrupted(), interrupted(), okRow},
		w.await(noMore.ID, tasks.Sent, 4).Attempts, "no more")
}

func finished(token string) tasks.Attempt {
	millis := int64(700)
	return tasks.Attempt{Token: token, Status: tasks.AttemptOK, Millis: &millis}
}

func TestNothingIsSentForAPushAtItsEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})

	sent := newPush("sent")
	w.begin(sent, "first", time.Hour)
	require.NoError(t, errorOf(w.records.Finish(t.Context(), sent, finished("first"), tasks.Sent)))

	late := newPush("late") // the OK comes after another run has taken the attempt for dead
	w.begin(late, "first", time.Hour)
	w.age(late.ID)
	w.begin(late, "second", time.Minute)
	require.NoError(t, errorOf(w.records.Finish(t.Context(), late, finished("first"), tasks.Sent)))
	require.NoError(t, w.records.Withdraw(t.Context(), late, "second", "not sent"))

	cancelled := newPush("cancelled")
	require.NoError(t, w.records.End(t.Context(), cancelled, tasks.Cancelled))

	w.work(workforce{})
	for _, push := range []tasks.Push{sent, late, cancelled} {
		w.accept(push)
	}
	for id, want := range map[string]struct {
		state asynq.TaskState
		push  tasks.State
	}{
		sent.ID:      {asynq.TaskStateCompleted, tasks.Sent},
		late.ID:      {asynq.TaskStateCompleted, tasks.Sent},
		cancelled.ID: {asynq.TaskStateArchived, tasks.Cancelled},
	} {
		testenv.Eventually(t, patience, "the task's end", func() bool {
			task, err := w.inspector.GetTaskInfo("swrve", id)
			require.NoError(t, err)
			return task.State == want.state
		})
		w.await(id, want.push, 0)
	}
	require.Zero(t, w.simulator.Stats().Requests)
}

// While a run waits for another slot, the attempt that it took for dead turns
// out to have delivered.
func TestTheLateOKComesBetweenTwoBegins(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	push := newPush("ann")
	w.begin(push, "first", time.Hour)
	w.age(push.ID)
	keeper := &slotKeeper{wait: func(call int) (slot limiter.Slot, err error) {
		if call == 0 {
			slot = limiter.Slot{At: time.Now().Add(-time.Second), RedisAt: time.Now()}
		} else if call == 1 {
			err = errorOf(w.records.Finish(t.Context(), push, finished("first"), tasks.Sent))
		}
		return slot, err
	}}
	w.work(workforce{slots: keeper.over})
	w.accept(push)
	testenv.Eventually(t, patience, "the task's end", func() bool {
		task, err := w.inspector.GetTaskInfo("swrve", push.ID)
		require.NoError(t, err)
		return task.State == asynq.TaskStateCompleted
	})
	requireRows(t, []row{
		okRow,
		{Status: tasks.AttemptError, ErrorType: tasks.ErrorOther, Message: "not sent: it has been delivered already", Uncounted: true},
	}, w.await(push.ID, tasks.Sent, 2).Attempts, "ann")
	require.Zero(t, w.simulator.Stats().Requests)
}

func TestMoreAttemptsAreAllowedMeanwhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	stop := w.work(workforce{maxAttempts: 3})
	id := w.acceptFor("503-")
	w.await(id, tasks.Retry, 2)
	stop()
	require.Equal(t, tasks.Retry, w.await(id, tasks.Retry, 2).State)
	w.work(workforce{maxAttempts: 5})
	require.Len(t, w.await(id, tasks.GivenUp, 5).Attempts, 5)
	require.Len(t, w.requests("503-"), 5)
}

func TestFewerAttemptsAreAllowedMeanwhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	stop := w.work(workforce{maxAttempts: 3})
	id := w.acceptFor("503-")
	w.await(id, tasks.Retry, 1)
	stop()
	w.work(workforce{maxAttempts: 1})
	attempts := len(w.await(id, tasks.GivenUp, 1).Attempts)
	require.Len(t, w.requests("503-"), attempts)
	require.Less(t, attempts, 3)
}

// asynq gives a cancelled task up at once; the run still has its place in the
// record, and what is on the wire is not cut off.
func TestCancellingATaskWithAsynqsTools(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{Latency: swrvesim.FixedLatency(700 * time.Millisecond)})
	w.work(workforce{})
	id := w.acceptFor("ann")
	testenv.Eventually(t, patience, "the request", func() bool { return w.simulator.Stats().InFlight == 1 })
	testenv.Eventually(t, patience, "the cancel to arrive", func() bool {
		require.NoError(t, w.inspector.CancelProcessing(id))
		text, err := w.reader.LastError("swrve", id)
		require.NoError(t, err)
		return strings.Contains(text, "context canceled")
	})
	requireRows(t, []row{okRow}, w.await(id, tasks.Sent, 1).Attempts, "ann")
	testenv.Eventually(t, patience, "the task's end", func() bool {
		task, err := w.inspector.GetTaskInfo("swrve", id)
		require.NoError(t, err)
		return task.State == asynq.TaskStateCompleted
	})
	require.Len(t, w.requests("ann"), 1)
	requireNoFailures(t, w)
}
