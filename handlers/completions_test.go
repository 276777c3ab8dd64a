package handlers

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"pushq/internal/testenv"
	"pushq/tasks"
)

var completionKeys = []string{"asynq:{q}:active", "asynq:{q}:lease", "asynq:{q}:completed", "asynq:{q}:t:id", "asynq:{q}:processed:day", "asynq:{q}:processed"}

// What asynq does for every single task goes through the pipeline, and nothing else
// does.
func TestTasksAreTakenAndCompletedThroughThePipeline(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	pipeline := redis.NewClient(&redis.Options{Addr: server.Addr(), ClientName: "pipeline"})
	t.Cleanup(func() { _ = pipeline.Close() })
	seen := make(chan []any, 10_000)
	pipeline.AddHook(seeing{seen})
	queue := tasks.Swrve.Queues()[0]
	client := asynq.NewClientFromRedisClient(server.Client(t))
	for _, outcome := range []string{"", "fails", "is archived"} {
		_, err := client.Enqueue(asynq.NewTask(tasks.Swrve.TaskType(), []byte(outcome), asynq.Queue(queue), asynq.Retention(time.Hour)))
		require.NoError(t, err)
	}
	servers, err := StartServers(server.Client(t), pipeline, asynq.HandlerFunc(func(_ context.Context, task *asynq.Task) error {
		switch string(task.Payload()) {
		case "fails":
			return context.DeadlineExceeded
		case "is archived":
			return asynq.SkipRetry
		}
		return nil
	}), ServersOptions{
		Channel: tasks.Swrve, Concurrency: 4, Pollers: 1, RetryInterval: time.Hour, ShutdownTimeout: time.Second,
		OnFault: func() { t.Error("a fault") }, Log: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	inspector := asynq.NewInspectorFromRedisClient(server.Client(t))
	testenv.Eventually(t, 10*time.Second, "all to be handled", func() bool {
		info, err := inspector.GetQueueInfo(queue)
		return err == nil && info.Completed == 1 && info.Retry == 1 && info.Archived == 1
	})
	servers.Stop()
	servers.Shutdown()
	close(seen)
	keys := map[string]int{} // the first of each script
	for arguments := range seen {
		if arguments[0] == "evalsha" {
			keys[arguments[3].(string)]++
		}
	}
	require.Equal(t, 1, keys["asynq:{"+queue+"}:active"], "one has ended well")
	require.Positive(t, keys["asynq:{"+queue+"}:pending"])
	require.Len(t, keys, 1+len(tasks.Swrve.Queues()), "%v", keys)
}

type seeing struct{ seen chan<- []any }

func (seeing) DialHook(next redis.DialHook) redis.DialHook { return next }
func (s seeing) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		s.seen <- cmd.Args()
		return next(ctx, cmd)
	}
}
func (seeing) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func TestACompletionThatComesTooLateIsNotWritten(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	client := server.Client(t)
	sha, err := client.ScriptLoad(t.Context(), "return redis.call('INCR', KEYS[1])").Result()
	require.NoError(t, err)
	poller := &queueClient{pipeline: client, onFault: func() {}}
	ended, end := context.WithCancel(t.Context())
	require.NoError(t, poller.EvalSha(ended, sha, completionKeys, "id").Err())
	end()
	require.ErrorIs(t, poller.EvalSha(ended, sha, completionKeys, "id").Err(), context.Canceled)
	require.Equal(t, "1", client.Get(t.Context(), completionKeys[0]).Val())
}

func TestFaultsOfCompletionsAreCounted(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	client := server.Client(t)
	sha, err := client.ScriptLoad(t.Context(), "return redis.error_reply(ARGV[1])").Result()
	require.NoError(t, err)
	faults := 0
	poller := &queueClient{pipeline: client, onFault: func() { faults++ }}
	require.Error(t, poller.EvalSha(t.Context(), sha, completionKeys, "NOT FOUND").Err())
	require.Zero(t, faults, "somebody else has ended the task")
	require.Error(t, poller.EvalSha(t.Context(), sha, completionKeys, "OOM").Err())
	require.Equal(t, 1, faults)
}

// A task that was completed together with its record is not completed again.
func TestWhatIsCompletedIsNotCompletedAgain(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	client := server.Client(t)
	sha, err := client.ScriptLoad(t.Context(), "return redis.call('INCR', KEYS[1])").Result()
	require.NoError(t, err)
	poller := &queueClient{pipeline: client, onFault: func() {}, completed: func(id string) bool { return id == "done" }}
	text, err := poller.EvalSha(t.Context(), sha, completionKeys, "done").Text()
	require.NoError(t, err)
	require.Equal(t, "OK", text)
	require.Zero(t, client.Exists(t.Context(), completionKeys[0]).Val())
	require.NoError(t, poller.EvalSha(t.Context(), sha, completionKeys, "other").Err())
	require.EqualValues(t, 1, client.Exists(t.Context(), completionKeys[0]).Val())
}

var dequeueKeys = []string{"asynq:{q}:pending", "asynq:{q}:paused", "asynq:{q}:active", "asynq:{q}:lease"}

// asynq repeats a dequeue that has failed at once, whichever way it asks.
func TestADequeueThatFailsTakesItsTime(t *testing.T) {
	t.Parallel()
	for name, dequeue := range map[string]func(*queueClient) error{
		"known script":   func(p *queueClient) error { return p.EvalSha(t.Context(), "sha", dequeueKeys).Err() },
		"unknown script": func(p *queueClient) error { return p.Eval(t.Context(), "source", dequeueKeys).Err() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// Full from the start: a server needs more than this for itself.
			server := testenv.StartRedis(t, "--maxmemory", "1")
			client := server.Client(t)
			faults := 0
			poller := &queueClient{
				fetcher: newFetcher(client, "q", 1, slog.New(slog.DiscardHandler)),
				onFault: func() { faults++ }, announcements: &announcements{closed: make(chan struct{})},
			}
			require.NoError(t, client.ConfigSet(t.Context(), "maxmemory", "0").Err())
			require.NoError(t, client.LPush(t.Context(), "asynq:{q}:pending", "id").Err())
			require.NoError(t, client.HSet(t.Context(), "asynq:{q}:t:id", "msg", "message").Err())
			require.NoError(t, client.ConfigSet(t.Context(), "maxmemory", "1").Err())
			times := 0
			for end := time.Now().Add(time.Second); time.Now().Before(end); times++ {
				require.ErrorContains(t, dequeue(poller), "OOM")
			}
			require.LessOrEqual(t, times, 11)
			require.Greater(t, times, 1)
			require.Equal(t, times, faults)

			poller.announcements.release()
			took := testenv.Fastest(20, pauseAfterFault, func() { require.Error(t, dequeue(poller)); times++ })
			require.Less(t, took, pauseAfterFault, "stopping does not wait for it")

			require.NoError(t, client.ConfigSet(t.Context(), "maxmemory", "0").Err())
			require.NoError(t, dequeue(poller))
			require.Equal(t, times, faults)
		})
	}
}

// recordsThatComplete complete every task, and do something else meanwhile.
type recordsThatComplete struct {
	Records
	meanwhile func()
}

func (r recordsThatComplete) FinishSent(context.Context, tasks.Push, tasks.Attempt) (bool, error) {
	r.meanwhile()
	return true, nil
}

func (recordsThatComplete) Finish(context.Context, tasks.Push, tasks.Attempt, tasks.State) (tasks.State, error) {
	return tasks.Sent, nil
}

func TestOnlyWhatAsynqWillAskForIsRemembered(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		queue    string
		end      tasks.State
		ended    bool // the context, before the outcome is written
		meantime bool // or while it is
		want     bool
	}{
		"sent":                     {queue: tasks.Swrve.ImmediateQueue(), end: tasks.Sent, want: true},
		"windowed":                 {queue: tasks.Swrve.WindowQueue(), end: tasks.Sent},
		"failed":                   {queue: tasks.Swrve.ImmediateQueue(), end: tasks.Failed},
		"lease lost":               {queue: tasks.Swrve.ImmediateQueue(), end: tasks.Sent, ended: true},
		"lease lost while writing": {queue: tasks.Swrve.ImmediateQueue(), end: tasks.Sent, meantime: true},
	} {
		counted, end := context.WithCancel(t.Context())
		if test.ended {
			end()
		}
		records := recordsThatComplete{meanwhile: func() {
			if test.meantime {
				end()
			}
		}}
		delivery := NewDelivery(Options{Channel: tasks.Swrve}, nil, records, nil, nil, nil)
		r := &run{Delivery: delivery, push: tasks.Push{ID: "id"}, queue: test.queue}
		recorded, err := r.finish(t.Context(), counted, tasks.Attempt{}, test.end)
		require.NoError(t, err)
		require.Equal(t, tasks.Sent, recorded)
		require.Equal(t, test.want, delivery.Completed("id"), name)
		require.False(t, delivery.Completed("id"), name)
		delivery.Close()
		end()
	}
}
