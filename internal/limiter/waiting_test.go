package limiter

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/testenv"
)

// waitFor calls Wait in the background.
func waitInBackground(ctx context.Context, l *Limiter, class Class) <-chan answer {
	got := make(chan answer, 1)
	go func() {
		slot, err := l.Wait(ctx, class)
		got <- answer{slot, err}
	}()
	return got
}

func receive(t testing.TB, what string, got <-chan answer) answer {
	t.Helper()
	select {
	case a := <-got:
		return a
	case <-time.After(2 * time.Minute):
		require.FailNow(t, "waited in vain", what)
		return answer{}
	}
}

func eventuallyWaiting(t testing.TB, l *Limiter, class Class, count int64) {
	t.Helper()
	testenv.Eventually(t, 5*time.Second, "waiters", func() bool { return l.Stats().Waiting[class] == count })
}

func TestAnImmediatePushPassesAHerd(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	l := startLimiter(t, server.URL(), 4*time.Millisecond)
	herd := gather(t, 500, Windowed, l)
	for range 5 {
		before := len(herd.waitFor(t, 10))
		slot, err := l.Wait(t.Context(), Immediate)
		require.NoError(t, err)
		passed := 0
		for _, other := range herd.taken()[before:] {
			if other.RedisAt.Before(slot.RedisAt) {
				passed++
			}
		}
		require.Less(t, passed, 100, "500 are waiting")
		slot, err = l.Wait(t.Context(), Resumed)
		require.NoError(t, err)
		require.False(t, slot.RedisAt.IsZero())
	}
}

func TestLeavingFreesThePlace(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	client := server.Client(t)
	require.NoError(t, client.Set(t.Context(), brakeKey, "429", 5*time.Second).Err()) // holds the waiters
	l := startLimiter(t, server.URL(), 2*time.Millisecond)
	reason := errors.New("gone home")
	ctx, cancel := context.WithCancelCause(t.Context())
	leaver, stayer := waitInBackground(ctx, l, Immediate), waitInBackground(t.Context(), l, Immediate)
	eventuallyWaiting(t, l, Immediate, 2)
	cancel(reason)
	require.ErrorIs(t, receive(t, "the leaver", leaver).err, reason)
	eventuallyWaiting(t, l, Immediate, 1)
	require.NoError(t, client.Del(t.Context(), brakeKey).Err())
	require.NoError(t, receive(t, "the one that stayed", stayer).err)
	eventuallyWaiting(t, l, Immediate, 0)

	_, err := l.Wait(ctx, Immediate)
	require.ErrorIs(t, err, reason, "it need not join to leave")
}

func TestGiveBack(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	proxy := testenv.NewProxy(t, server.Addr())
	proxy.SetLatency(300 * time.Millisecond) // slots are handed out as long before their time
	l := startLimiter(t, proxy.URL(), 5*time.Second)
	slot, err := l.Wait(t.Context(), Immediate)
	require.NoError(t, err)
	next := waitInBackground(t.Context(), l, Immediate)
	eventuallyWaiting(t, l, Immediate, 1)
	l.GiveBack(slot)
	require.Equal(t, slot, receive(t, "the next", next).slot)
	require.EqualValues(t, 1, l.Stats().Used)
	l.Drop()
	require.EqualValues(t, 1, l.Stats().Dropped)
}

func TestOneThatJoinsDuringTheRoundTripIsServed(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	proxy := testenv.NewProxy(t, server.Addr())
	l := startLimiter(t, proxy.URL(), 2*time.Millisecond)
	_, err := l.Wait(t.Context(), Immediate)
	require.NoError(t, err)
	proxy.SetLatency(200 * time.Millisecond)
	calls := scriptCalls(t, server)
	first := waitInBackground(t.Context(), l, Immediate)
	testenv.Eventually(t, 5*time.Second, "the call for the first to have arrived", func() bool { return scriptCalls(t, server) > calls })
	second := waitInBackground(t.Context(), l, Immediate)
	require.NoError(t, receive(t, "the first", first).err)
	require.NoError(t, receive(t, "the second", second).err)
}

func TestALeaverPassesOnTheSlotItJustGot(t *testing.T) {
	t.Parallel()
	l := &Limiter{returned: make(chan Slot, 1)}
	w := &waiter{answer: make(chan answer, 1)}
	slot := slotIn(time.Second)
	require.True(t, w.give(answer{slot: slot}))
	require.ErrorIs(t, l.leave(w, ErrNoSlot), ErrNoSlot)
	require.Len(t, l.returned, 1)
	require.Equal(t, slot, <-l.returned)

	refused := &waiter{answer: make(chan answer, 1)}
	require.True(t, refused.give(answer{err: &BrakedError{}}))
	require.ErrorIs(t, l.leave(refused, ErrNoSlot), ErrNoSlot)
	require.Empty(t, l.returned, "there is none to pass on")
}

func TestLateIsTenMilliseconds(t *testing.T) {
	t.Parallel()
	require.False(t, slotIn(time.Second).Late())
	require.False(t, slotIn(0).Late())
	require.True(t, slotIn(-11*time.Millisecond).Late())
}

func TestStop(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	require.NoError(t, server.Client(t).Set(t.Context(), brakeKey, "429", 9*time.Second).Err())
	l := startLimiter(t, server.URL(), 2*time.Millisecond)
	var waiting []<-chan answer
	for i := range 60 {
		waiting = append(waiting, waitInBackground(t.Context(), l, Class(i%int(classes))))
	}
	for class := range classes {
		eventuallyWaiting(t, l, class, 20)
	}
	l.Stop()
	for _, w := range waiting {
		require.ErrorIs(t, receive(t, "a waiter", w).err, ErrStopped)
	}
	l.Stop()
	_, err := l.Wait(t.Context(), Immediate)
	require.ErrorIs(t, err, ErrStopped)
	l.GiveBack(slotIn(time.Second))
	requireThrottled(t, l, 0) // it is still told to the others
	eventuallyWaiting(t, l, Immediate, 0)
}

func TestStopDuringAStorm(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	l := startLimiter(t, server.URL(), 2*time.Millisecond)
	var ended atomic.Int64
	for range 100 {
		go func() {
			defer ended.Add(1)
			for {
				slot, err := l.Wait(t.Context(), Immediate)
				if errors.Is(err, ErrStopped) {
					return
				}
				l.GiveBack(slot)
			}
		}()
	}
	testenv.Eventually(t, 5*time.Second, "slots", func() bool { return scriptCalls(t, server) > 10 })
	l.Stop()
	testenv.Eventually(t, 5*time.Second, "everybody to have gone", func() bool { return ended.Load() == 100 })
}
