package handlers_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/handlers"
	"pushq/internal/breaker"
	"pushq/internal/limiter"
	"pushq/internal/swrvesim"
	"pushq/internal/testenv"
	"pushq/tasks"
)

// guard returns a process' circuit breaker. All of a world are the same to Redis.
func (w *world) guard(change func(*breaker.Options)) *breaker.Breaker {
	options := breaker.Options{
		Keys:    breaker.Keys{Hash: tasks.Swrve.BreakerKey("swrve"), StateCopy: "state", FailuresCopy: "failures"},
		Service: "swrve", Failures: 5, OpenFor: time.Minute, Successes: 2, Forget: time.Minute,
		Log: slog.New(slog.DiscardHandler),
	}
	change(&options)
	return breaker.New(w.clients.Control, options)
}

// While a worker stands still, others get the permission in its place.
func TestAPermitThatHasLapsedIsNotUsed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	guard := w.guard(func(o *breaker.Options) { o.Forget = 300 * time.Millisecond })
	keeper := &slotKeeper{wait: func(call int) (slot limiter.Slot, err error) {
		if call == 0 {
			time.Sleep(guard.Forget) // and nobody renews it
		}
		return slot, nil
	}}
	w.work(workforce{maxAttempts: 1, breaker: guard, slots: keeper.over})
	w.requireOneAfterALapse("ann")
}

// While a push waits for its slot, another worker finds out that the service has died.
func TestAPermitFromBeforeTheBreakerOpenedIsNotUsed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	short := func(o *breaker.Options) { o.Failures, o.OpenFor = 2, 500*time.Millisecond }
	guard, other := w.guard(short), w.guard(short)
	report := func(result breaker.Result) error {
		permit, err := other.Allow(t.Context())
		if err == nil {
			err = permit.Report(t.Context(), result)
		}
		return err
	}
	opened := make(chan error, 1)
	keeper := &slotKeeper{wait: func(call int) (slot limiter.Slot, err error) {
		if call == 0 {
			err := errors.Join(report(breaker.Good), report(breaker.Bad), report(breaker.Bad))
			_, refused := guard.Allow(t.Context()) // for another push
			var open *breaker.OpenError
			if !errors.As(refused, &open) {
				err = errors.Join(err, refused, errors.New("it is not open"))
			}
			opened <- err
		}
		return slot, nil
	}}
	w.work(workforce{maxAttempts: 1, breaker: guard, slots: keeper.over})
	w.requireOneAfterALapse("ann")
	require.NoError(t, <-opened)
}

// requireOneAfterALapse wants a push to be sent once its permit has lapsed and it has got
// another one.
func (w *world) requireOneAfterALapse(user string) {
	w.t.Helper()
	report := w.await(w.acceptFor(user), tasks.Sent, 2)
	require.Len(w.t, w.requests(user), 1)
	require.Len(w.t, report.Attempts, 2)
	require.Equal(w.t, "not sent: deferred: breaker: the permit lapsed before the request", report.Attempts[0].ErrorMessage)
	require.True(w.t, report.Attempts[0].Uncounted)
	require.Equal(w.t, tasks.AttemptOK, report.Attempts[1].Status)
	info, err := w.inspector.GetQueueInfo(tasks.Swrve.ImmediateQueue())
	require.NoError(w.t, err)
	require.Zero(w.t, info.FailedTotal)
}

// A mortal is a provider that may be dead, or not bear the pushes of one user.
type mortal struct {
	dead     atomic.Bool
	fatal    string
	requests atomic.Int64
}

func (m *mortal) Prepare(_ context.Context, push tasks.Push) (send func() handlers.Outcome, instead *handlers.Outcome) {
	return func() handlers.Outcome {
		m.requests.Add(1)
		if m.dead.Load() || m.fatal != "" && strings.HasPrefix(push.PushKey, m.fatal) {
			return handlers.Outcome{
				Verdict: handlers.Retryable, ErrorType: tasks.ErrorOther, ErrorMessage: "no answer",
				MaybeDelivered: true, ServiceFailed: true,
			}
		}
		return handlers.Outcome{}
	}, nil
}

// While a service is dead for long, what is known of the pushes that wait is not forgotten.
func TestAPostponedPushKeepsItsStory(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	guard := w.guard(func(o *breaker.Options) { o.Failures = 1 })
	permit, err := guard.Allow(t.Context())
	require.NoError(t, err)
	require.NoError(t, permit.Report(t.Context(), breaker.Bad))

	push := newPush("ann")
	push.CreatedAt = tasks.MillisOf(time.Now().Add(-retention.Dead * 2 / 3))
	records := tasks.NewRecords(w.clients.Records, tasks.Swrve, retention)
	_, err = records.Begin(t.Context(), tasks.Attempting{Push: push, Token: "a", Interrupted: time.Minute, MaxAttempts: 3})
	require.NoError(t, err)
	_, err = records.Finish(t.Context(), push, tasks.Attempt{Token: "a", Status: tasks.AttemptError, ErrorType: tasks.ErrorSwrve}, "")
	require.NoError(t, err)
	record := tasks.Swrve.RecordKey(push.ID)
	require.NoError(t, w.clients.Records.Expire(t.Context(), record, time.Minute).Err())

	w.accept(push)
	w.work(workforce{maxAttempts: 3, breaker: guard})
	w.awaitText(tasks.Swrve.ImmediateQueue(), push.ID, "deferred: breaker: swrve is open")
	require.Greater(t, w.clients.Records.TTL(t.Context(), record).Val(), retention.Dead/2)
	require.Len(t, w.await(push.ID, tasks.Pending, 1).Attempts, 1)
}

// However often a push has to show that the service is still dead, it is not given up.
func TestFailedProbesDoNotCount(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	service := &mortal{}
	service.dead.Store(true)
	w.work(workforce{
		maxAttempts: 2,
		breaker:     w.guard(func(o *breaker.Options) { o.Failures, o.OpenFor = 1, 100*time.Millisecond }),
		provider:    func(handlers.Provider) handlers.Provider { return service },
	})
	id := w.acceptFor("ann")
	testenv.Eventually(t, patience, "three probes", func() bool { return service.requests.Load() == 1+3 })
	w.awaitText(tasks.Swrve.ImmediateQueue(), id, "deferred: breaker: the probe failed: OTHER: no answer")
	w.await(id, tasks.Pending, 1+3)
	service.dead.Store(false)

	attempts := w.await(id, tasks.Sent, 1+3+1).Attempts
	require.EqualValues(t, len(attempts), service.requests.Load())
	for place, attempt := range attempts[:len(attempts)-1] {
		require.Equal(t, tasks.AttemptError, attempt.Status)
		require.Equal(t, "no answer", attempt.ErrorMessage)
		require.True(t, attempt.MaybeDelivered)
		require.Equal(t, place > 0, attempt.Probe, "attempt %d", place+1)
		require.False(t, attempt.Uncounted)
	}
	require.False(t, attempts[len(attempts)-1].Probe)
	info, err := w.inspector.GetQueueInfo(tasks.Swrve.ImmediateQueue())
	require.NoError(t, err)
	require.Equal(t, 1, info.FailedTotal, "the attempt that opened the breaker")
}

// A push that the service never bears is not its only probe: others show that it works,
// and then that one's attempts count.
func TestAPushThatAlwaysFailsIsGivenUpAllTheSame(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	service := &mortal{fatal: "ann"}
	w.work(workforce{
		maxAttempts: 2,
		breaker:     w.guard(func(o *breaker.Options) { o.Failures, o.OpenFor = 1, 2*time.Second }),
		provider:    func(handlers.Provider) handlers.Provider { return service },
	})
	fatal := w.acceptFor("ann")
	testenv.Eventually(t, patience, "a request", func() bool { return service.requests.Load() == 1 })
	var others []string
	for range 5 {
		others = append(others, w.acceptFor("bob"))
	}
	for _, id := range others {
		w.await(id, tasks.Sent, 1)
	}
	require.LessOrEqual(t, len(w.await(fatal, tasks.GivenUp, 2).Attempts), 4, "two, and a probe or two")
}

// Pushes that do not wait for the breaker have no more attempts than others.
func TestFailedProbesCountWithDeadLetter(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	service := &mortal{}
	service.dead.Store(true)
	w.work(workforce{
		maxAttempts: 2, deadLetter: true,
		breaker:  w.guard(func(o *breaker.Options) { o.Failures, o.OpenFor = 1, 100*time.Millisecond }),
		provider: func(handlers.Provider) handlers.Provider { return service },
	})
	for _, attempt := range w.await(w.acceptFor("ann"), tasks.GivenUp, 2).Attempts {
		require.False(t, attempt.Probe)
	}
	require.EqualValues(t, 2, service.requests.Load())
}
