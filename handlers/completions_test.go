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

// What asynq writes about a push that has been handled, and nothing else of it,
// goes through the client for completions.
func TestCompletionsHaveTheirClient(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	completions := redis.NewClient(&redis.Options{Addr: server.Addr(), ClientName: "completions"})
	t.Cleanup(func() { _ = completions.Close() })
	seen := make(chan []any, 100)
	completions.AddHook(seeing{seen})
	queue := tasks.Swrve.Queues()[0]
	client := asynq.NewClientFromRedisClient(server.Client(t))
	for _, outcome := range []string{"", "fails", "is archived"} {
		_, err := client.Enqueue(asynq.NewTask(tasks.Swrve.TaskType(), []byte(outcome), asynq.Queue(queue), asynq.Retention(time.Hour)))
		require.NoError(t, err)
	}
	servers, err := StartServers(server.Client(t), completions, asynq.HandlerFunc(func(_ context.Context, task *asynq.Task) error {
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
	var scripts int
	for arguments := range seen {
		if arguments[0] == "evalsha" {
			scripts++
			require.Equal(t, "asynq:{"+queue+"}:active", arguments[3])
		}
	}
	require.Equal(t, 1, scripts)
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
	poller := &idlePoller{completions: client, onFault: func() {}}
	ended, end := context.WithCancel(t.Context())
	require.NoError(t, poller.EvalSha(ended, sha, completionKeys).Err())
	end()
	require.ErrorIs(t, poller.EvalSha(ended, sha, completionKeys).Err(), context.Canceled)
	require.Equal(t, "1", client.Get(t.Context(), completionKeys[0]).Val())
}

func TestFaultsOfCompletionsAreCounted(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	client := server.Client(t)
	sha, err := client.ScriptLoad(t.Context(), "return redis.error_reply(ARGV[1])").Result()
	require.NoError(t, err)
	faults := 0
	poller := &idlePoller{completions: client, onFault: func() { faults++ }}
	require.Error(t, poller.EvalSha(t.Context(), sha, completionKeys, "NOT FOUND").Err())
	require.Zero(t, faults, "somebody else has ended the task")
	require.Error(t, poller.EvalSha(t.Context(), sha, completionKeys, "OOM").Err())
	require.Equal(t, 1, faults)
}
