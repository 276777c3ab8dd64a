package tasks

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"pushq/internal/testenv"
)

// A stall is a Redis that answers nothing, and an intake that has been asked for
// many more pushes than its calls under way take.
type stall struct {
	server *testenv.Redis
	intake *Intake
	pushes []Push
	errs   []error // what became of them; set when callers is done

	callers sync.WaitGroup
}

// beginStall returns when all pushes are on their way or wait. Every tenth has a
// caller who waits for ever, the others give up with ctx.
func beginStall(ctx context.Context, t *testing.T, timeout time.Duration) *stall {
	const pushes = 1500
	s := &stall{server: testenv.StartRedis(t), errs: make([]error, pushes)}
	client, seen := redis.NewClient(&redis.Options{Addr: s.server.Addr(), ReadTimeout: timeout, MaxRetries: -1}), &groups{}
	t.Cleanup(func() { _ = client.Close() })
	s.intake = NewIntake(client, Swrve, testRetention)
	_, err := s.intake.Accept(t.Context(), newPush(), false)
	require.NoError(t, err)
	client.AddHook(seen)
	s.server.Freeze()
	for place := range pushes {
		push, caller := newPush(), ctx
		if place%10 == 0 {
			caller = t.Context()
		}
		s.pushes = append(s.pushes, push)
		s.callers.Go(func() { _, s.errs[place] = s.intake.Accept(caller, push, false) })
	}
	testenv.Eventually(t, 10*time.Second, "all pushes to be on their way or to wait", func() bool {
		s.intake.enqueuer.mutex.Lock()
		defer s.intake.enqueuer.mutex.Unlock()
		waiting := s.intake.enqueuer.waiting[place{Swrve.ImmediateQueue(), asynq.TaskStatePending}]
		return len(waiting)+seen.pushes() == pushes
	})
	return s
}

// outcomes thaws Redis and counts what callers were told: it must be true.
func (s *stall) outcomes(t *testing.T) (stored, notStored, unknown int) {
	s.server.Thaw()
	s.callers.Wait()
	testenv.Eventually(t, 5*time.Second, "nothing to be kept of what waited", func() bool {
		s.intake.enqueuer.mutex.Lock()
		defer s.intake.enqueuer.mutex.Unlock()
		return len(s.intake.enqueuer.waiting) == 0
	})
	s.intake.Close()
	ids, err := s.server.Client(t).LRange(t.Context(), asynqStateKey(Swrve.ImmediateQueue(), asynq.TaskStatePending), 0, -1).Result()
	require.NoError(t, err)
	there := make(map[string]bool)
	for _, id := range ids {
		there[id] = true
	}
	for number, err := range s.errs {
		switch {
		case err == nil:
			stored++
			require.True(t, there[s.pushes[number].ID])
		case errors.Is(err, ErrOutcomeUnknown):
			unknown++
		default:
			notStored++
			require.ErrorIs(t, err, ErrNotStored)
			require.False(t, there[s.pushes[number].ID], "nobody may get it: %v", err)
		}
	}
	return stored, notStored, unknown
}

// A push whose caller has given up, and may post it again, is not stored when
// Redis comes back.
func TestAStallStoresNothingBehindItsCallers(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := beginStall(ctx, t, time.Minute)
	cancel()
	testenv.Eventually(t, 10*time.Second, "only the patient to wait", func() bool {
		s.intake.enqueuer.mutex.Lock()
		defer s.intake.enqueuer.mutex.Unlock()
		return len(s.intake.enqueuer.waiting[place{Swrve.ImmediateQueue(), asynq.TaskStatePending}]) <= len(s.pushes)/10
	})
	stored, notStored, unknown := s.outcomes(t)
	require.Equal(t, len(s.pushes)/10, stored, "those whose callers waited")
	require.LessOrEqual(t, unknown, maxStoring*groupPushes)
	require.Equal(t, len(s.pushes), stored+notStored+unknown)
}

// A process that stops in a stall waits for what is on its way alone.
func TestCloseInAStallWaitsForNoBacklog(t *testing.T) {
	t.Parallel()
	s := beginStall(t.Context(), t, 5*time.Second)
	began := time.Now()
	s.intake.Close()
	s.callers.Wait()
	require.Less(t, time.Since(began), 20*time.Second, "the backlog would take five times the timeout")
	stored, notStored, unknown := s.outcomes(t)
	require.Zero(t, stored)
	require.LessOrEqual(t, unknown, maxStoring*groupPushes)
	require.Equal(t, len(s.pushes), notStored+unknown)
}

// Close returns only when what its callers gave up on its way has ended.
func TestCloseWaitsForWhatCallersGaveUp(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	client, seen := server.Client(t), &groups{}
	intake := NewIntake(client, Swrve, testRetention)
	_, err := intake.Accept(t.Context(), newPush(), false)
	require.NoError(t, err)
	client.AddHook(seen)
	server.Freeze()
	ctx, cancel := context.WithCancel(t.Context())
	given := make(chan error)
	go func() {
		_, err := intake.Accept(ctx, newPush(), false)
		given <- err
	}()
	testenv.Eventually(t, 5*time.Second, "the push to be on its way", func() bool { return seen.pushes() == 1 })
	cancel()
	require.ErrorIs(t, <-given, ErrOutcomeUnknown)
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		intake.Close()
	}()
	server.Thaw()
	<-closed
	require.Equal(t, 2, countTasks(t, openInspector(t, server)))
}

// The pushes of a group are not sent if asynq's list of queues cannot be
// written, whatever became of the list.
func TestAFailedRegistrationIsCertain(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	proxy := testenv.NewProxy(t, server.Addr())
	intake := openIntake(t, proxy.URL())
	proxy.CutReplyTo(asynqQueuesKey, 1)
	_, err := intake.Accept(t.Context(), newPush(), false)
	require.ErrorIs(t, err, ErrNotStored)
	require.NotErrorIs(t, err, ErrOutcomeUnknown)

	_, err = intake.Accept(t.Context(), newPush(), false)
	require.NoError(t, err)
	require.Equal(t, 1, countTasks(t, openInspector(t, server)))
}

// panicking panics at the first pipeline.
type panicking struct{ done atomic.Bool }

func (p *panicking) DialHook(next redis.DialHook) redis.DialHook { return next }

func (p *panicking) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (p *panicking) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		if commands[0].Name() == "evalsha" && !p.done.Swap(true) {
			panic("out of order")
		}
		return next(ctx, commands)
	}
}

func TestAPanicFailsItsGroupOnly(t *testing.T) {
	t.Parallel()
	client := testenv.StartRedis(t).Client(t)
	client.AddHook(&panicking{})
	intake := NewIntake(client, Swrve, testRetention)
	t.Cleanup(intake.Close)
	_, err := intake.Accept(t.Context(), newPush(), false)
	require.ErrorIs(t, err, ErrOutcomeUnknown)
	require.ErrorContains(t, err, "out of order")
	_, err = intake.Accept(t.Context(), newPush(), false)
	require.NoError(t, err)
}
