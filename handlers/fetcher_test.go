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

// newFetcher returns a fetcher for a queue with so many tasks, and their ids.
func newFetcher(t *testing.T, client redis.UniversalClient, concurrency, pending int) (*fetcher, []string) {
	t.Helper()
	var ids []string
	enqueuer := asynq.NewClientFromRedisClient(client)
	for range pending {
		ids = append(ids, tasks.NewID())
		_, err := enqueuer.Enqueue(asynq.NewTask(tasks.Swrve.TaskType(), nil), asynq.TaskID(ids[len(ids)-1]), asynq.Queue(fetchedQueue))
		require.NoError(t, err)
	}
	return &fetcher{client: client, queue: fetchedQueue, concurrency: concurrency, log: slog.New(slog.DiscardHandler)}, ids
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
	f, ids := newFetcher(t, client, 4, 10)
	for place := range 4 {
		message, err := f.next(t.Context())
		require.NoError(t, err)
		require.Contains(t, message, ids[place], "the oldest first")
		pending, active := sizes(t, client)
		require.Equal(t, []int{6, 4}, []int{pending, active}, "with one call")
	}
	f.inWork.Add(-2) // two have ended
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

	f.inWork.Store(0)
	for range 3 {
		_, err := f.next(t.Context())
		require.NoError(t, err)
	}
	_, err = f.next(t.Context())
	require.ErrorIs(t, err, redis.Nil)
}

func TestAHandlerThatEndsIsCounted(t *testing.T) {
	t.Parallel()
	client := testenv.StartRedis(t).Client(t)
	_, _ = newFetcher(t, client, 1, 3)
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
		require.Zero(t, f.inWork.Load(), queue)
		require.Empty(t, f.taken, queue)
	}
}

// A task that asynq does not ask for in time is for somebody else.
func TestTasksAreNotHeldForLong(t *testing.T) {
	t.Parallel()
	client := testenv.StartRedis(t).Client(t)
	f, ids := newFetcher(t, client, 3, 3)
	_, err := f.next(t.Context())
	require.NoError(t, err)
	f.takenAt = f.takenAt.Add(-maxHeld - time.Millisecond)
	f.inWork.Store(2)
	message, err := f.next(t.Context())
	require.NoError(t, err)
	require.Contains(t, message, ids[1], "given back and fetched anew")
	pending, active := sizes(t, client)
	require.Equal(t, []int{1, 2}, []int{pending, active})
}

func TestWhatIsLeftWhenTheServersStopIsGivenBack(t *testing.T) {
	t.Parallel()
	client := testenv.StartRedis(t).Client(t)
	f, ids := newFetcher(t, client, 3, 3)
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

// When the answer to a fetch is lost, the next one brings the same tasks.
func TestALostFetchIsRepeated(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	direct := server.Client(t)
	proxy := testenv.NewProxy(t, server.Addr())
	through := redis.NewClient(&redis.Options{Addr: proxy.Addr(), MaxRetries: -1, ReadTimeout: time.Second})
	t.Cleanup(func() { _ = through.Close() })
	f, ids := newFetcher(t, direct, 3, 3)
	f.client = through
	message, err := f.next(t.Context()) // loads the script
	require.NoError(t, err)
	require.Contains(t, message, ids[0])
	f.close()

	proxy.CutReplyTo("evalsha", 1)
	_, err = f.next(t.Context())
	require.Error(t, err)
	_, active := sizes(t, direct)
	require.Equal(t, 3, active, "they were taken all the same")
	var got []string
	for range 2 {
		message, err := f.next(t.Context())
		require.NoError(t, err)
		got = append(got, message)
	}
	require.Contains(t, got[0]+got[1], ids[1])
	require.Contains(t, got[0]+got[1], ids[2])

	// After a while they are left to the end of their lease.
	f.taken, f.leaseEnd = nil, time.Now().Add(leaseDuration-maxRepeated-time.Second)
	_, err = f.next(t.Context())
	require.ErrorIs(t, err, redis.Nil)
}
