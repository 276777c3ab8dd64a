package tasks

import (
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

func TestRescheduleScript(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		require.NoError(t, RegisterQueues(t.Context(), client, Swrve))
		intake := NewIntake(client, Swrve, testRetention)
		t.Cleanup(intake.Close)
		inspector := asynq.NewInspectorFromRedisClient(client)
		queue := Swrve.WindowQueue()
		at := time.Now().Add(2 * time.Hour).Truncate(time.Second)
		reschedule := func(id string) string {
			t.Helper()
			state, err := rescheduleScript.Run(t.Context(), client, []string{
				asynqTaskKey(queue, id), asynqStateKey(queue, asynq.TaskStateScheduled),
				asynqStateKey(queue, asynq.TaskStateRetry), asynqStateKey(queue, asynq.TaskStateArchived),
			}, id, at.Unix()).Text()
			require.NoError(t, err)
			return state
		}
		stored := func() string {
			t.Helper()
			push := newWindowedPush(time.Now().Add(time.Hour))
			_, err := intake.Accept(t.Context(), push, false)
			require.NoError(t, err)
			return push.ID
		}
		requireScheduled := func(id string) {
			t.Helper()
			for range 2 { // it may be repeated
				require.Equal(t, "scheduled", reschedule(id))
				info, err := inspector.GetTaskInfo(queue, id)
				require.NoError(t, err)
				require.Equal(t, asynq.TaskStateScheduled, info.State)
				require.True(t, at.Equal(info.NextProcessAt))
			}
		}
		requireScheduled(stored())
		archived := stored()
		require.NoError(t, inspector.ArchiveTask(queue, archived))
		requireScheduled(archived)
		retried := stored()
		require.NoError(t, client.HSet(t.Context(), asynqTaskKey(queue, retried), "state", "retry").Err())
		require.NoError(t, client.ZRem(t.Context(), asynqStateKey(queue, asynq.TaskStateScheduled), retried).Err())
		require.NoError(t, client.ZAdd(t.Context(), asynqStateKey(queue, asynq.TaskStateRetry), redis.Z{Score: 1, Member: retried}).Err())
		requireScheduled(retried)

		pending := stored()
		require.NoError(t, inspector.RunTask(queue, pending))
		require.Equal(t, "pending", reschedule(pending))
		require.Equal(t, "GONE", reschedule(NewID()))
		misplaced := stored()
		require.NoError(t, client.HSet(t.Context(), asynqTaskKey(queue, misplaced), "state", "archived").Err())
		require.Equal(t, "archived", reschedule(misplaced), "it is not where it says, which is for the doctor")
		info, err := inspector.GetQueueInfo(queue)
		require.NoError(t, err)
		require.Equal(t, []int{4, 1, 0, 0}, []int{info.Scheduled, info.Pending, info.Retry, info.Archived})
	})
}
