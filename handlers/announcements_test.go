package handlers_test

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	"pushq/handlers"
	"pushq/internal/swrvesim"
	"pushq/internal/testenv"
	"pushq/tasks"
)

// serveInto starts servers that tell the ids of what they handle.
func (w *world) serveInto(handled chan<- string) *handlers.Servers {
	w.t.Helper()
	servers, err := handlers.StartServers(w.clients.Queue, w.clients.Records, asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
		id, _ := asynq.GetTaskID(ctx)
		handled <- id
		return nil
	}), handlers.ServersOptions{
		Channel: tasks.Swrve, OnFault: func() {}, Concurrency: 8, Pollers: 2, ShutdownTimeout: 5 * time.Second,
		RetryInterval: time.Second, Log: slog.New(slog.DiscardHandler),
	})
	require.NoError(w.t, err)
	w.t.Cleanup(servers.Shutdown)
	return servers
}

// serveIdly is serveInto with pollers that have come to rest.
func (w *world) serveIdly() <-chan string {
	w.t.Helper()
	handled := make(chan string, 100)
	w.serveInto(handled)
	w.settle()
	return handled
}

// scripts is how many scripts Redis has run.
func (w *world) scripts() int {
	w.t.Helper()
	statistics, err := w.clients.Read.Info(w.t.Context(), "commandstats").Result()
	require.NoError(w.t, err)
	found := regexp.MustCompile(`cmdstat_evalsha:calls=(\d+)`).FindStringSubmatch(statistics)
	if found == nil {
		return 0 // yet
	}
	count, err := strconv.Atoi(found[1])
	require.NoError(w.t, err)
	return count
}

// settle waits until all four pollers are held back for long: then fewer
// scripts run in 100 ms than they would run otherwise.
func (w *world) settle() {
	w.t.Helper()
	testenv.Eventually(w.t, patience, "the pollers to come to rest", func() bool {
		before := w.scripts()
		time.Sleep(100 * time.Millisecond)
		return before > 0 && w.scripts()-before < 20 // of 40 at one in 10 ms each
	})
}

func (w *world) expect(handled <-chan string, id string, within time.Duration) {
	w.t.Helper()
	select {
	case got := <-handled:
		require.Equal(w.t, id, got)
	case <-time.After(within):
		require.Fail(w.t, "not handled in time", "%s within %s", id, within)
	}
}

// An idle process asks Redis a few times a second, and yet takes a push as soon
// as it has been accepted, by whichever process.
func TestIdlePollersWaitForAnnouncements(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	handled := w.serveIdly()

	before, began := w.scripts(), time.Now()
	time.Sleep(2 * time.Second)
	// Four pollers and their forwarders of two sets each, twice a second; polling
	// every 10 ms would be 800.
	require.Less(t, float64(w.scripts()-before), 40*time.Since(began).Seconds())

	// By its own looking, a poller would take a quarter of a second on average.
	// A busy machine is not always as fast as it can be, but now and then.
	soon := 0
	const pushes, rounds = 20, 20
	for round := 0; round < rounds && soon < pushes*3/4; round++ {
		soon = 0
		for range pushes {
			accepted := time.Now()
			w.expect(handled, w.acceptFor("ann"), patience)
			if time.Since(accepted) < 100*time.Millisecond {
				soon++
			}
			time.Sleep(50 * time.Millisecond) // until they are held back for long again
		}
	}
	require.GreaterOrEqual(t, soon, pushes*3/4)
}

// What was not announced is found by looking.
func TestUnannouncedPushesAreFound(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	handled := w.serveIdly()
	client := asynq.NewClientFromRedisClient(w.clients.Read)
	for _, queue := range tasks.Swrve.Queues() {
		id := tasks.NewID()
		_, err := client.Enqueue(asynq.NewTask(tasks.Swrve.TaskType(), nil), asynq.Queue(queue), asynq.TaskID(id))
		require.NoError(t, err)
		w.expect(handled, id, patience)
	}
}

// A push that becomes due is in the queue as soon as asynq has put it there.
func TestForwardedPushesWakeThePollers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	handled := w.serveIdly()
	client := asynq.NewClientFromRedisClient(w.clients.Read)
	id := tasks.NewID()
	_, err := client.Enqueue(asynq.NewTask(tasks.Swrve.TaskType(), nil), asynq.Queue(tasks.Swrve.WindowQueue()),
		asynq.TaskID(id), asynq.ProcessIn(time.Second))
	require.NoError(t, err)
	w.expect(handled, id, patience)
}

// Entries whose tasks are gone look to asynq like an empty queue; they must not
// hold up the push behind them by half a second each.
func TestGhostsHoldNobodyUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	const ghosts = 400
	for ghost := range ghosts {
		require.NoError(t, w.clients.Read.LPush(t.Context(), "asynq:{swrve}:pending", fmt.Sprint("ghost", ghost)).Err())
	}
	handled := make(chan string, 100)
	id := w.acceptFor("ann")
	w.serveInto(handled)
	w.expect(handled, id, ghosts*500*time.Millisecond/4)
}

// A paused queue with pushes in it is not asked any more often.
func TestPausedQueuesAreLeftAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	handled := make(chan string, 100)
	require.NoError(t, w.inspector.PauseQueue(tasks.Swrve.ImmediateQueue()))
	w.serveInto(handled)
	id := w.acceptFor("ann")
	w.settle()
	require.Empty(t, handled)
	require.NoError(t, w.inspector.UnpauseQueue(tasks.Swrve.ImmediateQueue()))
	w.expect(handled, id, patience)
}

// Pollers that are held back do not hold back a stop, and take nothing after it.
func TestHeldPollersStop(t *testing.T) {
	t.Parallel()
	const soon = 100 * time.Millisecond // four pollers are held back for up to 500 ms
	shortest := time.Hour
	for round := 0; round < 10 && shortest >= soon; round++ {
		w := newWorld(t, swrvesim.Config{})
		handled := make(chan string, 100)
		servers := w.serveInto(handled)
		w.settle()
		began := time.Now()
		servers.Stop()
		shortest = min(shortest, time.Since(began))
		w.acceptFor("ann")
		servers.Shutdown()
		require.Empty(t, handled)
	}
	require.Less(t, shortest, soon)
}
