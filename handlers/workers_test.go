package handlers_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	"pushq/handlers"
	"pushq/internal/swrvesim"
	"pushq/internal/testenv"
	"pushq/tasks"
)

// Each queue has the concurrency for itself, divided among its pollers, of
// which no more are started than there is work for.
func TestConcurrencyIsPerQueue(t *testing.T) {
	t.Parallel()
	const concurrency = 2
	w := newWorld(t, swrvesim.Config{})
	var atOnce [2]atomic.Int32
	release := make(chan struct{})
	servers, err := handlers.StartServers(w.clients.Queue, w.clients.Records, asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
		queue, _ := asynq.GetQueueName(ctx)
		place := 0
		if queue == tasks.Swrve.WindowQueue() {
			place = 1
		}
		atOnce[place].Add(1)
		<-release
		return nil
	}), handlers.ServersOptions{
		Channel: tasks.Swrve, OnFault: func() {}, Concurrency: concurrency, Pollers: 8, ShutdownTimeout: 5 * time.Second,
		RetryInterval: time.Second, Log: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	t.Cleanup(servers.Shutdown)
	t.Cleanup(func() { close(release) })

	for range 10 {
		w.acceptFor("ann")
		w.accept(heldPush("bob", "* * * * * ?"))
	}
	testenv.Eventually(t, patience, "both queues to be served", func() bool {
		return atOnce[0].Load() >= concurrency && atOnce[1].Load() >= concurrency
	})
	// Any poller with room would have taken a task at once.
	require.Never(t, func() bool {
		return atOnce[0].Load() > concurrency || atOnce[1].Load() > concurrency
	}, 300*time.Millisecond, 20*time.Millisecond)
}
