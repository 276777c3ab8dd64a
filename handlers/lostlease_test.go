package handlers_test

import (
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"pushq/handlers"
	"pushq/internal/swrvesim"
	"pushq/internal/testenv"
	"pushq/tasks"
)

// A worker that lives is taken for dead: its pushes are handed out again while
// it sends them. One send ends before that, the other one after it.
func TestPushesTakenBackFromAWorkerThatLives(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	var sends atomic.Int32
	earlySent, lateSent := make(chan struct{}), make(chan struct{})
	after := func(sent <-chan struct{}) func() handlers.Outcome {
		return func() handlers.Outcome {
			sends.Add(1)
			<-sent
			return handlers.Outcome{Verdict: handlers.Delivered}
		}
	}
	w.work(workforce{provider: func(inner handlers.Provider) handlers.Provider {
		return provider{Provider: inner, send: map[string]func() handlers.Outcome{"early-": after(earlySent), "late-": after(lateSent)}}
	}})
	early, late := w.acceptFor("early-"), w.acceptFor("late-")
	testenv.Eventually(t, patience, "both to be sent", func() bool { return sends.Load() == 2 })

	caretaker := tasks.NewCaretaker(w.clients.Read, tasks.Swrve, w.records, slog.New(slog.DiscardHandler))
	testenv.Eventually(t, patience, "both to be taken back", func() bool {
		for _, id := range []string{early, late} { // the worker may renew one in between
			require.NoError(t, w.clients.Read.ZAddXX(t.Context(), "asynq:{swrve}:lease", redis.Z{Score: 1, Member: id}).Err())
		}
		caretaker.CatchUp(t.Context())
		return w.clients.Read.ZCard(t.Context(), "asynq:{swrve}:lease").Val() == 0
	})
	for _, id := range []string{early, late} {
		require.Equal(t, tasks.Retry, w.await(id, tasks.Retry, 1).State)
		w.awaitText("swrve", id, asynq.ErrLeaseExpired.Error())
	}

	close(earlySent)
	require.Len(t, w.await(early, tasks.Sent, 1).Attempts, 1)
	testenv.Eventually(t, patience, "asynq to be done with the first", func() bool {
		task, err := w.inspector.GetTaskInfo("swrve", early)
		require.NoError(t, err)
		return task.State == asynq.TaskStateCompleted
	})
	w.awaitText("swrve", late, "deferred: another worker has an attempt in process")
	close(lateSent)
	require.Len(t, w.await(late, tasks.Sent, 1).Attempts, 1, "waiting counts nothing")
	require.EqualValues(t, 2, sends.Load(), "each once")
	requireNoFailures(t, w)
}
