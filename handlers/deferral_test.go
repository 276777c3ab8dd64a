package handlers_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/handlers"
	"pushq/internal/limiter"
	"pushq/internal/swrvesim"
	"pushq/internal/testenv"
	"pushq/tasks"
)

// All deferrals are on what is the last attempt, of which asynq would archive a
// task that counts.

func TestDeferralsForWantOfASlot(t *testing.T) {
	t.Parallel()
	for reason, err := range map[string]error{
		"no slot within a minute": limiter.ErrNoSlot,
		"shutdown":                limiter.ErrStopped,
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, swrvesim.Config{})
			var slots atomic.Bool
			keeper := &slotKeeper{wait: func(int) (limiter.Slot, error) {
				if slots.Load() {
					return limiter.Slot{}, nil
				}
				return limiter.Slot{}, err
			}}
			w.work(workforce{maxAttempts: 1, slots: keeper.over})
			id := w.acceptFor("ann")
			w.awaitText("swrve", id, "deferred: "+reason)
			require.Empty(t, w.await(id, tasks.Pending, 0).Attempts)
			slots.Store(true)
			requireRows(t, []row{okRow}, w.await(id, tasks.Sent, 1).Attempts, reason)
			require.Len(t, w.requests("ann"), 1)
			requireNoFailures(t, w)
		})
	}
}

// requireNoFailures asks asynq's statistics.
func requireNoFailures(t *testing.T, w *world) {
	t.Helper()
	for _, queue := range tasks.Swrve.Queues() {
		info, err := w.inspector.GetQueueInfo(queue)
		require.NoError(t, err)
		require.Zero(t, info.FailedTotal, queue)
	}
}

func TestALongBrakeDefers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	require.NoError(t, w.clients.Read.Set(t.Context(), tasks.Swrve.BrakeKey(), "429", 40*time.Second).Err())
	w.work(workforce{maxAttempts: 1})
	id := w.acceptFor("ann")
	w.awaitText("swrve", id, "deferred: brake: the provider asked to wait another ")
	report := w.await(id, tasks.Pending, 0)
	require.Empty(t, report.Attempts)
	require.WithinDuration(t, time.Now().Add(40*time.Second), report.NextAttemptAt, 35*time.Second)
	require.Zero(t, w.simulator.Stats().Requests)
	requireNoFailures(t, w)
}

func TestBusy(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	push := newPush("ann")
	w.begin(push, "another run", time.Hour)
	keeper := &slotKeeper{}
	w.work(workforce{maxAttempts: 1, slots: keeper.over})
	id := w.accept(push)
	w.awaitText("swrve", id, "deferred: another worker has an attempt in process")
	report := w.await(id, tasks.Pending, 1)
	require.Len(t, report.Attempts, 1)
	require.Equal(t, tasks.AttemptInProcess, report.Attempts[0].Status)
	require.WithinDuration(t, time.Now().Add(15*time.Second), report.NextAttemptAt, 14*time.Second)
	_, given, _ := keeper.seen()
	require.Len(t, given, 1, "another push can use the slot")
	require.Zero(t, w.simulator.Stats().Requests)
	requireNoFailures(t, w)
}

func TestRedisCannotBeReachedAtBegin(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	proxy, client := w.proxied()
	proxy.Refuse(true)
	w.work(workforce{maxAttempts: 1, recordsClient: client})
	id := w.acceptFor("ann")
	testenv.Eventually(t, patience, "a try without Redis", func() bool {
		return strings.Contains(w.log.String(), "no attempt without redis")
	})
	require.Zero(t, w.simulator.Stats().Requests)
	proxy.Refuse(false)
	w.awaitText("swrve", id, "deferred: redis cannot be reached")
	requireRows(t, []row{okRow}, w.await(id, tasks.Sent, 1).Attempts, "ann")
	require.Len(t, w.requests("ann"), 1)
	requireNoFailures(t, w)
}

func TestALostReplyChangesNothing(t *testing.T) {
	t.Parallel()
	for _, script := range []string{"begin.lua", "finish.lua"} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, swrvesim.Config{})
			sha := w.loadScript(script)
			proxy, client := w.proxied()
			proxy.CutReplyTo(sha, 1)
			w.work(workforce{maxAttempts: 1, recordsClient: client})
			id := w.acceptFor("ann")
			requireRows(t, []row{okRow}, w.await(id, tasks.Sent, 1).Attempts, script)
			require.Len(t, w.requests("ann"), 1)
			require.Equal(t, 1, proxy.Cut())
		})
	}
}

// Begin is not repeated for ever: the attempt that it may have recorded is
// withdrawn.
func TestAllRepliesToBeginAreLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	sha := w.loadScript("begin.lua")
	proxy, client := w.proxied()
	proxy.CutReplyTo(sha, 3) // the client repeats it twice
	w.work(workforce{maxAttempts: 1, recordsClient: client})
	id := w.acceptFor("ann")
	requireRows(t, []row{
		{Status: tasks.AttemptError, ErrorType: tasks.ErrorOther, Message: "not sent: deferred: redis cannot be reached", Uncounted: true},
		okRow,
	}, w.await(id, tasks.Sent, 2).Attempts, "ann")
	require.Len(t, w.requests("ann"), 1)
	require.Equal(t, 3, proxy.Cut())
	require.Len(t, w.loggedAttempts(id), 1)
}

func TestRedisIsGoneWhenTheOutcomeIsKnown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	proxy, client := w.proxied()
	w.work(workforce{maxAttempts: 1, recordsClient: client, provider: func(inner handlers.Provider) handlers.Provider {
		return provider{Provider: inner, send: map[string]func() handlers.Outcome{"cut off": func() handlers.Outcome {
			proxy.Refuse(true)
			return handlers.Outcome{}
		}}}
	}})
	id := w.acceptFor("cut off")
	testenv.Eventually(t, patience, "some tries to record the outcome", func() bool {
		return strings.Count(w.log.String(), "trying again") >= 3
	})
	require.Equal(t, tasks.InMemory, w.await(id, tasks.InMemory, 1).State)
	proxy.Refuse(false)
	requireRows(t, []row{okRow}, w.await(id, tasks.Sent, 1).Attempts, id)
}

// A worker that cannot record an outcome ends all the same when it is told to;
// the push stays in the queue and its attempt in process.
func TestStopWhileRedisIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	proxy, client := w.proxied()
	stop := w.work(workforce{shutdownTimeout: time.Second, recordsClient: client, provider: func(inner handlers.Provider) handlers.Provider {
		return provider{Provider: inner, send: map[string]func() handlers.Outcome{"cut off": func() handlers.Outcome {
			proxy.Refuse(true)
			return handlers.Outcome{}
		}}}
	}})
	id := w.acceptFor("cut off")
	testenv.Eventually(t, patience, "a try to record the outcome", func() bool {
		return strings.Contains(w.log.String(), "trying again")
	})
	began := time.Now()
	stop()
	require.Less(t, time.Since(began), time.Minute)
	report := w.await(id, tasks.Pending, 1)
	require.Equal(t, tasks.AttemptInProcess, report.Attempts[0].Status)
}

func TestStopping(t *testing.T) {
	t.Parallel()
	const pushes = 8
	w := newWorld(t, swrvesim.Config{Latency: swrvesim.FixedLatency(700 * time.Millisecond)})
	stop := w.work(workforce{maxAttempts: 1, pace: 300 * time.Millisecond})
	var ids []string
	for i := range pushes {
		ids = append(ids, w.acceptFor(fmt.Sprint(i, "-")))
	}
	testenv.Eventually(t, patience, "a request", func() bool { return w.simulator.Stats().InFlight > 0 })
	began := time.Now()
	stop()
	require.Less(t, time.Since(began), time.Minute)

	sent, waiting := 0, 0
	for _, id := range ids {
		report, err := w.reader.Get(t.Context(), id)
		require.NoError(t, err)
		if report.State == tasks.Sent {
			sent++
			requireRows(t, []row{okRow}, report.Attempts, id)
			continue
		}
		require.Equal(t, tasks.Pending, report.State)
		for _, attempt := range report.Attempts { // had its slot, but no time left
			require.True(t, attempt.Uncounted)
		}
		text, err := w.reader.LastError("swrve", id)
		require.NoError(t, err)
		if text != "" { // or was not fetched at all
			require.Equal(t, "deferred: shutdown", text)
			waiting++
		}
	}
	require.Equal(t, sent, w.simulator.Stats().Requests, "a request was abandoned")
	require.Positive(t, sent)
	require.Positive(t, waiting)
	requireNoFailures(t, w)

	w.work(workforce{maxAttempts: 1})
	for i, id := range ids {
		w.await(id, tasks.Sent, 1)
		require.Len(t, w.requests(fmt.Sprint(i, "-")), 1)
	}
}

func TestALateSlotIsNotUsed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	keeper := &slotKeeper{wait: func(call int) (slot limiter.Slot, err error) {
		if call == 0 {
			now := time.Now()
			slot = limiter.Slot{At: now.Add(-limiter.MaxLateness - time.Millisecond), RedisAt: now}
		}
		return slot, nil
	}}
	w.work(workforce{maxAttempts: 1, slots: keeper.over})
	id := w.acceptFor("ann")
	requireRows(t, []row{okRow}, w.await(id, tasks.Sent, 1).Attempts, "ann")
	classes, given, dropped := keeper.seen()
	// On a busy machine the next slot may be late too.
	require.GreaterOrEqual(t, dropped, 1)
	require.Len(t, classes, 1+dropped)
	require.Equal(t, limiter.Immediate, classes[0])
	for _, class := range classes[1:] {
		require.Equal(t, limiter.Resumed, class)
	}
	require.Empty(t, given)
	require.Len(t, w.requests("ann"), 1)
	require.Len(t, w.loggedAttempts(id), 1)
}

func TestTooMuchTimeAfterBegin(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	keeper := &slotKeeper{wait: func(call int) (slot limiter.Slot, err error) {
		if call == 0 {
			slot = limiter.Slot{At: time.Now().Add(5100 * time.Millisecond), RedisAt: time.Now()}
		}
		return slot, nil
	}}
	w.work(workforce{maxAttempts: 1, slots: keeper.over})
	id := w.acceptFor("ann")
	requireRows(t, []row{
		{
			Status: tasks.AttemptError, ErrorType: tasks.ErrorOther, Uncounted: true,
			Message: "not sent: deferred: the worker was paused before it could send",
		},
		okRow,
	}, w.await(id, tasks.Sent, 2).Attempts, "ann")
	require.Len(t, w.requests("ann"), 1)
	requireNoFailures(t, w)
}
