package handlers_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/breaker"
	"pushq/internal/limiter"
	"pushq/internal/swrvesim"
	"pushq/tasks"
)

// While a worker stands still, others get the permission in its place.
func TestAPermitThatHasLapsedIsNotUsed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	guard := breaker.New(w.clients.Control, breaker.Options{
		Keys:    breaker.Keys{Hash: tasks.Swrve.BreakerKey("swrve"), StateCopy: "state", FailuresCopy: "failures"},
		Service: "swrve", Failures: 5, OpenFor: time.Minute, Successes: 2, Forget: 300 * time.Millisecond,
		Log: slog.New(slog.DiscardHandler),
	})
	keeper := &slotKeeper{wait: func(call int) (slot limiter.Slot, err error) {
		if call == 0 {
			time.Sleep(guard.Forget) // and nobody renews it
		}
		return slot, nil
	}}
	w.work(workforce{maxAttempts: 1, breaker: guard, slots: keeper.over})
	id := w.acceptFor("ann")
	report := w.await(id, tasks.Sent, 2)
	require.Len(t, w.requests("ann"), 1)
	require.Len(t, report.Attempts, 2)
	require.Contains(t, report.Attempts[0].ErrorMessage, "not sent: ")
	require.True(t, report.Attempts[0].Uncounted)
	require.Equal(t, tasks.AttemptOK, report.Attempts[1].Status)
	requireNoFailures(t, w)
}
