package handlers

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"pushq/internal/testenv"
	"pushq/tasks"
)

const fetchedQueue = "swrve"

// fetcherFor returns a fetcher for a queue with so many tasks, and their ids.
func fetcherFor(t *testing.T, client redis.UniversalClient, concurrency, pending int) (*fetcher, []string) {
	t.Helper()
	var ids []string
	enqueuer := asynq.NewClientFromRedisClient(client)
	for range pending {
		ids = append(ids, tasks.NewID())
		_, err := enqueuer.Enqueue(asynq.NewTask(tasks.Swrve.TaskType(), nil), asynq.TaskID(ids[len(ids)-1]), asynq.Queue(fetchedQueue))
		require.NoError(t, err)
	}
	return newFetcher(client, fetchedQueue, concurrency, slog.New(slog.DiscardHandler)), ids
}

// run lets the handlers of so many tasks begin that asynq was given.
func (f *fetcher) run(t *testing.T, count int) {
	t.Helper()
	for id := range f.given {
		if count > 0 {
			f.begin(id)
			count--
		}
	}
	require.Zero(t, count)
}

func sizes(t *testing.T, client redis.UniversalClient) (pending, active int) {
	t.Helper()
	info, err := asynq.NewInspectorFromRedisClient(client).GetQueueInfo(fetchedQueue)
	require.NoError(t, err)
	return info.Pending, info.Active
}

func TestNoMoreIsFetchedThanThereAreHandlersFree(t *testing.T) {
	t.Parallel()
	client := testenv.StartRedis(t).Client(t)
	f, ids := fetcherFor(t, client, 4, 10)
	for place := range 4 {
		message, err := f.next(t.Context())
		require.NoError(t, err)
		require.Contains(t, message, ids[place], "the oldest first")
		pending, active := sizes(t, client)
		require.Equal(t, []int{6, 4}, []int{pending, active}, "with one call")
	}
	f.run(t, 3)
	f.end()
	f.end()
	for range 2 {
		_, err := f.next(t.Context())
		require.NoError(t, err)
		pending, _ := sizes(t, client)
		require.Equal(t, 4, pending)
	}
	// asynq has room, whatever has been counted: one is fetched in any case.
	_, err := f.next(t.Context())
	require.NoError(t, err)
	pending, _ := sizes(t, client)
	require.Equal(t, 3, pending)

	// Those that asynq does not run at all are not counted for ever.
	for id := range f.given {
		f.given[id] = time.Now().Add(-beginsWithin - time.Second)
	}
	_, err = f.next(t.Context())
	require.NoError(t, err)
	pending, _ = sizes(t, client)
	require.Zero(t, pending, "three of the four handlers are free")
	for range 2 {
		_, err := f.next(t.Context())
		require.NoError(t, err)
	}
	_, err = f.next(t.Context())
	require.ErrorIs(t, err, redis.Nil)
}

func TestAHandlerThatEndsIsCounted(t *testing.T) {
	t.Parallel()
	client := testenv.StartRedis(t).Client(t)
	_, _ = fetcherFor(t, client, 1, 3)
	ended := make(chan struct{}, 3)
	servers, err := StartServers(client, client, asynq.HandlerFunc(func(_ context.Context, task *asynq.Task) error {
		ended <- struct{}{}
		return errors.New("whatever comes of it")
	}), ServersOptions{
		Channel: tasks.Swrve, Concurrency: 8, Pollers: 2, RetryInterval: time.Hour, ShutdownTimeout: time.Second,
		OnFault: func() {}, Log: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	for range 3 {
		<-ended
	}
	servers.Shutdown()
	for queue, f := range servers.fetchers {
		require.Zero(t, f.begun, queue)
		require.Empty(t, f.given, queue)
		require.Empty(t, f.taken, queue)
	}
}

// A task that asynq does not ask for in time is for somebody else.
func TestTasksAreNotHeldForLong(t *testing.T) {
	t.Parallel()
	client := testenv.StartRedis(t).Client(t)
	f, ids := fetcherFor(t, client, 3, 3)
	_, err := f.next(t.Context())
	require.NoError(t, err)
	f.concurrency = 2
	f.takenAt = f.takenAt.Add(-maxHeld - time.Millisecond)
	message, err := f.next(t.Context())
	require.NoError(t, err)
	require.Contains(t, message, ids[1], "given back and fetched anew")
	pending, active := sizes(t, client)
	require.Equal(t, []int{1, 2}, []int{pending, active})
}

func TestWhatIsLeftWhenTheServersStopIsGivenBack(t *testing.T) {
	t.Parallel()
	client := testenv.StartRedis(t).Client(t)
	f, ids := fetcherFor(t, client, 3, 3)
	_, err := f.next(t.Context())
	require.NoError(t, err)
	f.close()
	f.close()
	pending, active := sizes(t, client)
	require.Equal(t, []int{2, 1}, []int{pending, active})
	infos, err := asynq.NewInspectorFromRedisClient(client).ListPendingTasks(fetchedQueue)
	require.NoError(t, err)
	require.ElementsMatch(t, ids[1:], []string{infos[0].ID, infos[1].ID})
}

// When the answer to a fetch is lost, the next one brings the same tasks, and if there
// is no next one, they are given back.
func TestALostFetchIsRepeated(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]bool{"goes on": false, "stops": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testenv.StartRedis(t)
			direct := server.Client(t)
			proxy := testenv.NewProxy(t, server.Addr())
			through := redis.NewClient(&redis.Options{Addr: proxy.Addr(), MaxRetries: -1, ReadTimeout: time.Second})
			t.Cleanup(func() { _ = through.Close() })
			f, _ := fetcherFor(t, through, 3, 0)
			_, err := f.next(t.Context()) // loads the script
			require.ErrorIs(t, err, redis.Nil)
			_, ids := fetcherFor(t, direct, 3, 3)

			proxy.CutReplyTo("evalsha", 1)
			_, err = f.next(t.Context())
			require.Error(t, err)
			_, active := sizes(t, direct)
			require.Equal(t, 3, active, "they were taken all the same")
			if stop {
				f.close()
				pending, active := sizes(t, direct)
				require.Equal(t, []int{3, 0}, []int{pending, active})
				return
			}
			for place := range 3 {
				message, err := f.next(t.Context())
				require.NoError(t, err)
				require.Contains(t, message, ids[place])
			}
		})
	}
}

// asynq runs no handler for a task of a type that it does not know.
func TestTasksOfOtherTypesAreCountedToo(t *testing.T) {
	t.Parallel()
	client := testenv.StartRedis(t).Client(t)
	enqueuer := asynq.NewClientFromRedisClient(client)
	for range 5 {
		_, err := enqueuer.Enqueue(asynq.NewTask("other", nil), asynq.Queue(fetchedQueue), asynq.MaxRetry(0))
		require.NoError(t, err)
	}
	servers, err := StartServers(client, client, asynq.NotFoundHandler(), ServersOptions{
		Channel: tasks.Swrve, Concurrency: 8, Pollers: 1, RetryInterval: time.Hour, ShutdownTimeout: time.Second,
		OnFault: func() {}, Log: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	testenv.Eventually(t, 10*time.Second, "all to be archived", func() bool {
		info, err := asynq.NewInspectorFromRedisClient(client).GetQueueInfo(fetchedQueue)
		return err == nil && info.Archived == 5
	})
	servers.Shutdown()
	require.Zero(t, servers.fetchers[fetchedQueue].begun)
	require.Empty(t, servers.fetchers[fetchedQueue].given)
}
