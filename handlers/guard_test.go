package handlers_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
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
		Keys:    breaker.Keys{Hash: tasks.Swrve.BreakerKey("swrve"), Failing: tasks.Swrve.BreakerFailingKey("swrve"), StateCopy: "state", FailuresCopy: "failures"},
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
		permit, err := other.Allow(t.Context(), "another")
		if err == nil {
			err = permit.Report(t.Context(), result)
		}
		return err
	}
	opened := make(chan error, 1)
	keeper := &slotKeeper{wait: func(call int) (slot limiter.Slot, err error) {
		if call == 0 {
			err := errors.Join(report(breaker.Good), report(breaker.Bad), report(breaker.Bad))
			_, refused := guard.Allow(t.Context(), "another") // for another push
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

// A mortal is a provider that may be dead, or not bear the pushes of some users: then an
// attempt comes to what it says.
type mortal struct {
	dead     atomic.Bool
	fatal    string // how these users begin
	failure  handlers.Outcome
	requests atomic.Int64
}

// noAnswer is what comes of a request that certainly did not arrive.
var noAnswer = handlers.Outcome{
	Verdict: handlers.Retryable, ErrorType: tasks.ErrorOther, ErrorMessage: "no answer", ServiceFailed: true,
}

// maybeArrived is what comes of a request that may have arrived.
var maybeArrived = handlers.Outcome{
	Verdict: handlers.Retryable, ErrorType: tasks.ErrorOther, ErrorMessage: "no answer", ServiceFailed: true, MaybeDelivered: true,
}

// refusesPushq is what comes of a request of somebody who may not make any.
var refusesPushq = handlers.Outcome{
	Verdict: handlers.Permanent, ErrorType: tasks.ErrorSwrve, ErrorCode: 403, ErrorMessage: "who are you?",
	ServiceFailed: true, RefusesPushq: true, Alarm: true,
}

func (m *mortal) Prepare(_ context.Context, push tasks.Push) (send func() handlers.Outcome, instead *handlers.Outcome) {
	return func() handlers.Outcome {
		m.requests.Add(1)
		if m.dead.Load() || m.fatal != "" && strings.HasPrefix(push.PushKey, m.fatal) {
			return m.failure
		}
		return handlers.Outcome{}
	}, nil
}

// over has workers use it in the place of their provider.
func (m *mortal) over(handlers.Provider) handlers.Provider { return m }

// While a service is dead for long, what is known of the pushes that wait is not forgotten.
func TestAPostponedPushKeepsItsStory(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	guard := w.guard(func(o *breaker.Options) { o.Failures = 1 })
	permit, err := guard.Allow(t.Context(), "another")
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
	service := &mortal{failure: noAnswer}
	service.dead.Store(true)
	w.work(workforce{
		maxAttempts: 2,
		breaker:     w.guard(func(o *breaker.Options) { o.Failures, o.OpenFor = 1, 100*time.Millisecond }),
		provider:    service.over,
	})
	id := w.acceptFor("ann")
	testenv.Eventually(t, patience, "three probes", func() bool { return service.requests.Load() >= 1+3 })
	w.awaitText(tasks.Swrve.ImmediateQueue(), id, "deferred: breaker: the probe failed: OTHER: no answer")
	w.await(id, tasks.Pending, 1+3)
	service.dead.Store(false)

	attempts := w.await(id, tasks.Sent, 1+3+1).Attempts
	require.EqualValues(t, len(attempts), service.requests.Load())
	for place, attempt := range attempts[:len(attempts)-1] {
		require.Equal(t, tasks.AttemptError, attempt.Status)
		require.Equal(t, "no answer", attempt.ErrorMessage)
		require.Equal(t, place > 0, attempt.Probe, "attempt %d", place+1)
		require.False(t, attempt.Uncounted)
	}
	require.False(t, attempts[len(attempts)-1].Probe)
	info, err := w.inspector.GetQueueInfo(tasks.Swrve.ImmediateQueue())
	require.NoError(t, err)
	require.Equal(t, 1, info.FailedTotal, "the attempt that opened the breaker")
}

// Nobody is sent the same thing more often than attempts are allowed, however dead the
// service is.
func TestFailedProbesThatMayHaveArrivedCount(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	service := &mortal{failure: maybeArrived}
	service.dead.Store(true)
	w.work(workforce{
		maxAttempts: 3,
		breaker:     w.guard(func(o *breaker.Options) { o.Failures, o.OpenFor = 1, 100*time.Millisecond }),
		provider:    service.over,
	})
	for _, attempt := range w.await(w.acceptFor("ann"), tasks.GivenUp, 3).Attempts {
		require.False(t, attempt.Probe)
	}
	require.EqualValues(t, 3, service.requests.Load())
}

// Pushes that the service never bears do not keep the breaker open: others show that it
// works, and then the attempts of those count. It is so for every channel that has a
// breaker, whatever comes of its requests.
func TestPushesThatAlwaysFailDoNotStopTheOthers(t *testing.T) {
	const maxAttempts, good = 3, 30
	for _, test := range []struct {
		name    string
		failure handlers.Outcome
		bad     int // one more than open the breaker
		free    int // attempts of each, at most
	}{
		{"requests that do not arrive", noAnswer, 6, 2},
		{"requests that may have arrived", maybeArrived, 6, 0},
		{"refusals of pushq itself", refusesPushq, 6, 3}, // the first is free too
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, swrvesim.Config{})
			var opened atomic.Int64
			guard := w.guard(func(o *breaker.Options) {
				o.OpenFor = 3 * time.Second
				o.OnOpen = func() { opened.Add(1) }
			})
			service := &mortal{fatal: "bad", failure: test.failure}
			var bad, others []string
			for range test.bad {
				bad = append(bad, w.acceptFor("bad"))
			}
			w.work(workforce{maxAttempts: maxAttempts, breaker: guard, provider: service.over})
			testenv.Eventually(t, patience, "the breaker to open", func() bool { return opened.Load() > 0 })
			for range good {
				others = append(others, w.acceptFor("good"))
			}
			requests := 0
			for _, id := range others {
				free, paid := requestsIn(w.await(id, tasks.Sent, 1))
				require.Zero(t, free)
				require.Equal(t, 1, paid)
				requests++
			}
			// Other pushes come now and then, so that somebody is served.
			testenv.Eventually(t, patience, "the bad ones to end", func() bool {
				w.await(w.acceptFor("good"), tasks.Sent, 1)
				requests++
				return !slices.ContainsFunc(bad, func(id string) bool {
					report, err := w.reader.Get(t.Context(), id)
					return err != nil || report.State != tasks.GivenUp
				})
			})
			for _, id := range bad {
				free, paid := requestsIn(w.await(id, tasks.GivenUp, maxAttempts))
				require.Equal(t, maxAttempts, paid)
				require.LessOrEqual(t, free, test.free)
				requests += free + paid
			}
			require.EqualValues(t, requests, service.requests.Load())
			// One, unless the pushes that have not failed are so late on a busy machine that
			// those that have are there too.
			require.LessOrEqual(t, opened.Load(), int64(2))
			state, _, err := guard.Read(t.Context())
			require.NoError(t, err)
			require.Equal(t, breaker.Closed, state)
		})
	}
}

// requestsIn counts the attempts of a push that made a request, by whether they count.
func requestsIn(report tasks.Report) (free, paid int) {
	for _, attempt := range report.Attempts {
		switch {
		case attempt.Probe:
			free++
		case !attempt.Uncounted:
			paid++
		}
	}
	return free, paid
}

// An inconclusive answer neither excuses the failures before it nor closes the breaker.
func TestAnInconclusiveAnswerDoesNotCountForTheBreaker(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	service := &mortal{fatal: "bad", failure: handlers.Outcome{
		Verdict: handlers.Retryable, ErrorType: tasks.ErrorSwrve, ErrorCode: 401, Inconclusive: true,
	}}
	guard := w.guard(func(*breaker.Options) {})
	permit, err := guard.Allow(t.Context(), "another")
	require.NoError(t, err)
	require.NoError(t, permit.Report(t.Context(), breaker.Bad))
	w.work(workforce{maxAttempts: 2, breaker: guard, provider: service.over})
	w.await(w.acceptFor("bad"), tasks.GivenUp, 2)
	_, failures, err := guard.Read(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, failures, "it is neither a failure nor a good answer")
}

// One refusal does not open the breaker, and is told nevertheless.
func TestARefusalThatDoesNotOpenTheBreakerIsTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	service := &mortal{fatal: "bad", failure: refusesPushq}
	guard := w.guard(func(o *breaker.Options) { o.Log = slog.New(slog.NewJSONHandler(w.log, nil)) })
	w.work(workforce{maxAttempts: 1, breaker: guard, provider: service.over})
	id := w.acceptFor("bad")
	testenv.Eventually(t, patience, "the line", func() bool {
		return strings.Contains(w.log.String(), `"the provider refuses pushq itself: mend the configuration; the push of this id has the answer","id":"`+id)
	})
	state, _, err := guard.Read(t.Context())
	require.NoError(t, err)
	require.Equal(t, breaker.Closed, state)
}

// A provider that refuses pushq itself ends no push. All wait, and somebody is told.
func TestARefusalOfPushqItselfEndsNoPush(t *testing.T) {
	t.Parallel()
	const pushes, failures = 20, 5
	w := newWorld(t, swrvesim.Config{})
	service := &mortal{failure: refusesPushq}
	service.dead.Store(true)
	guard := w.guard(func(o *breaker.Options) {
		o.Failures, o.OpenFor = failures, 2*time.Second
		o.Log = slog.New(slog.NewJSONHandler(w.log, nil))
	})
	w.work(workforce{maxAttempts: 1, breaker: guard, provider: service.over})
	var ids []string
	for range pushes {
		ids = append(ids, w.acceptFor("ann"))
	}
	testenv.Eventually(t, patience, "two looks", func() bool { return service.requests.Load() >= failures+2 })
	testenv.Eventually(t, patience, "a push to say why it waits", func() bool {
		return slices.ContainsFunc(ids, func(id string) bool {
			text, err := w.reader.LastError(tasks.Swrve.ImmediateQueue(), id)
			return err == nil && text == "deferred: the provider refuses pushq itself: SWRVE 403: who are you?"
		})
	})
	statuses, err := breaker.ReadStatuses(t.Context(), w.clients.Read, guard.Hash)
	require.NoError(t, err)
	require.True(t, statuses[0].Refused)
	refusals := 0
	for _, id := range ids {
		report, err := w.reader.Get(t.Context(), id)
		require.NoError(t, err)
		require.NotContains(t, []tasks.State{tasks.Failed, tasks.GivenUp}, report.State)
		for _, attempt := range report.Attempts {
			if attempt.Status == tasks.AttemptError && !attempt.Uncounted {
				require.Equal(t, 403, attempt.ErrorCode)
				require.True(t, attempt.Probe, "nobody pays for it")
				refusals++
			}
		}
	}
	require.Positive(t, refusals)
	require.NotZero(t, testenv.ScrapeHandler(t, w.metrics.Handler()).Series[`pushq_alarms_total{channel="swrve"}`])
	told := strings.Count(w.log.String(), `"the provider refuses pushq itself: mend the configuration"`)
	require.Positive(t, told)
	require.Less(t, told, int(service.requests.Load()), "once for each time that the breaker opens")

	service.dead.Store(false)
	for _, id := range ids {
		w.await(id, tasks.Sent, 1)
	}
}

// Without a breaker, and where an open one ends pushes, a refusal ends them.
func TestARefusalOfPushqItselfThatIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	for name, force := range map[string]func(w *world) workforce{
		"no breaker": func(*world) workforce { return workforce{} },
		"dead-letter": func(w *world) workforce {
			return workforce{deadLetter: true, breaker: w.guard(func(*breaker.Options) {})}
		},
	} {
		w := newWorld(t, swrvesim.Config{})
		service := &mortal{failure: refusesPushq}
		service.dead.Store(true)
		force := force(w)
		force.provider = service.over
		w.work(force)
		attempts := w.await(w.acceptFor("ann"), tasks.Failed, 1).Attempts
		require.Equal(t, "who are you?", attempts[0].ErrorMessage, name)
		require.False(t, attempts[0].Probe, name)
	}
}

// Pushes that do not wait for the breaker have no more attempts than others.
func TestFailedProbesCountWithDeadLetter(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	service := &mortal{failure: noAnswer}
	service.dead.Store(true)
	w.work(workforce{
		maxAttempts: 2, deadLetter: true,
		breaker:  w.guard(func(o *breaker.Options) { o.Failures, o.OpenFor = 1, 100*time.Millisecond }),
		provider: service.over,
	})
	for _, attempt := range w.await(w.acceptFor("ann"), tasks.GivenUp, 2).Attempts {
		require.False(t, attempt.Probe)
	}
	require.EqualValues(t, 2, service.requests.Load())
}
