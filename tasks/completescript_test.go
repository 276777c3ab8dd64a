package tasks

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"pushq/internal/testenv"
)

// A completion by a real asynq server and one by complete.lua leave the same behind.
func TestTasksAreCompletedAsByAsynq(t *testing.T) {
	t.Parallel()
	complete := map[string]func(*testing.T, *story){
		"asynq": func(t *testing.T, s *story) {
			server := asynq.NewServerFromRedisClient(s.client, asynq.Config{Queues: map[string]int{Swrve.ImmediateQueue(): 1}, LogLevel: asynq.FatalLevel})
			require.NoError(t, server.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return nil })))
			t.Cleanup(server.Shutdown)
		},
		"pushq": func(t *testing.T, s *story) {
			s.take()
			s.begun("a")
			require.True(t, s.finishSent(sent("a")))
		},
	}
	for name, kept := range map[string]time.Duration{"kept": testRetention.Completed, "not kept": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			keys, tasks := map[string]map[string]string{}, map[string]*asynq.TaskInfo{}
			for who, complete := range complete {
				client := testenv.StartRedis(t).Client(t)
				s := newStory(t, client)
				s.push.ID, s.push.CreatedAt = "01K2J8Z8W0000000000000000A", 1764313200000
				s.records.retention.Completed = kept
				s.enqueue()
				complete(t, s)

				inspector := asynq.NewInspectorFromRedisClient(client)
				testenv.Eventually(t, 10*time.Second, "the task to be completed", func() bool {
					queue, err := inspector.GetQueueInfo(Swrve.ImmediateQueue())
					return err == nil && queue.Processed == 1 && queue.ProcessedTotal == 1 && queue.Active == 0
				})
				keys[who] = map[string]string{}
				for _, key := range client.Keys(t.Context(), "asynq:{"+Swrve.ImmediateQueue()+"}*").Val() {
					days := (client.TTL(t.Context(), key).Val() + time.Hour) / (24 * time.Hour)
					keys[who][key] = fmt.Sprintf("%s for %d days", client.Type(t.Context(), key).Val(), days)
				}
				info, err := inspector.GetTaskInfo(Swrve.ImmediateQueue(), s.push.ID)
				if kept == 0 {
					require.ErrorIs(t, err, asynq.ErrTaskNotFound)
					continue
				}
				require.NoError(t, err)
				require.WithinDuration(t, time.Now(), info.CompletedAt, time.Minute)
				score := client.ZScore(t.Context(), asynqStateKey(Swrve.ImmediateQueue(), asynq.TaskStateCompleted), s.push.ID).Val()
				require.Equal(t, info.CompletedAt.Add(kept).Unix(), int64(score))
				info.CompletedAt = time.Time{}
				tasks[who] = info
			}
			require.Equal(t, keys["asynq"], keys["pushq"])
			require.Equal(t, tasks["asynq"], tasks["pushq"])
		})
	}
}

func TestACompletionMayBeRepeated(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		s := newStory(t, client)
		s.enqueue()
		s.take()
		s.begun("a")
		attempt := sent("a")
		require.True(t, s.finishSent(attempt))
		record := s.record()
		s.waitForNextMillisecond() // a repeat that wrote its own time would show
		require.True(t, s.finishSent(attempt))
		require.Equal(t, record, s.record())
		require.Equal(t, asynq.TaskStateCompleted, s.taskState())
		require.Equal(t, "1", client.Get(t.Context(), asynqProcessedKey(Swrve.ImmediateQueue())).Val())
	})
}

// Whatever else has become of the task, the record is finished and asynq is left to
// its own.
func TestOnlyATaskThatIsHeldIsCompleted(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		for name, test := range map[string]struct {
			push    Push
			prepare func(*story)
			state   asynq.TaskState // 0 for none
		}{
			"taken back":  {newPush(), func(s *story) { s.enqueue() }, asynq.TaskStatePending},
			"gone":        {newPush(), func(*story) {}, 0},
			"other queue": {newWindowedPush(time.Now()), func(s *story) { s.enqueue(); s.take() }, asynq.TaskStateActive},
		} {
			require.NoError(t, client.FlushDB(t.Context()).Err())
			s := newStory(t, client)
			s.push = test.push
			test.prepare(s)
			s.begun("a")
			require.False(t, s.finishSent(sent("a")), name)
			require.Equal(t, Sent, s.record().End, name)
			require.Zero(t, client.Exists(t.Context(), asynqProcessedKey(Swrve.queue(s.push))).Val(), name)
			if test.state != 0 {
				require.Equal(t, test.state, s.taskState(), name)
			}
		}
	})
}

// A list entry whose task is gone does not come back to life.
func TestACompletionMakesNoTask(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		s := newStory(t, client)
		s.enqueue()
		s.take()
		require.NoError(t, client.Del(t.Context(), asynqTaskKey(Swrve.ImmediateQueue(), s.push.ID)).Err())
		s.begun("a")
		require.True(t, s.finishSent(sent("a")))
		require.Zero(t, client.Exists(t.Context(), asynqTaskKey(Swrve.ImmediateQueue(), s.push.ID)).Val())
		require.Zero(t, client.LLen(t.Context(), asynqStateKey(Swrve.ImmediateQueue(), asynq.TaskStateActive)).Val())
	})
}
