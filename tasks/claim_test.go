package tasks

import (
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// claim runs the script alone, as a process does that is killed before it
// enqueues.
func claim(t *testing.T, client *redis.Client, push Push) string {
	answer, err := claimScript.Run(t.Context(), client, []string{Swrve.ClaimKey(push.ID)}, contentHash(push), 3600).Text()
	require.NoError(t, err)
	return answer
}

func TestClaimIsTheFirstCallers(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		push := newPush()
		require.Equal(t, "NEW", claim(t, client, push))
		require.Equal(t, "OPEN", claim(t, client, push))

		other := push
		other.Message += "!"
		require.Equal(t, "OTHER", claim(t, client, other))
		require.Equal(t, "OPEN", claim(t, client, push))

		fresh := newPush()
		require.Equal(t, "NEW", claim(t, client, fresh))
	})
}

func TestAClaimKnowsTheEndOfItsPush(t *testing.T) {
	for _, end := range []State{Sent, Failed, GivenUp, Cancelled} {
		t.Run(string(end), func(t *testing.T) {
			onEachRedis(t, func(t *testing.T, client *redis.Client) {
				s := newStory(t, client)
				require.Equal(t, "NEW", claim(t, client, s.push))
				s.begun("a")
				s.fail("a", "")
				require.Equal(t, "OPEN", claim(t, client, s.push), "under way")
				for range 2 {
					if end == Sent {
						s.begin(s.attempting("b"))
						s.succeed("b")
					} else {
						s.end(end)
					}
					require.Equal(t, "ENDED", claim(t, client, s.push))
				}
				other := s.push
				other.TimeZone = "Europe/Stockholm"
				require.Equal(t, "OTHER", claim(t, client, other))
				left, err := client.TTL(t.Context(), Swrve.ClaimKey(s.push.ID)).Result()
				require.NoError(t, err)
				require.InDelta(t, testRetention.Dead.Seconds(), left.Seconds(), 30, "counted from the end")
			})
		})
	}
}

func TestAnEndMakesNoClaim(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		s := newStory(t, client)
		s.end(Failed)
		count, err := client.Exists(t.Context(), Swrve.ClaimKey(s.push.ID)).Result()
		require.NoError(t, err)
		require.Zero(t, count)
	})
}

// After the end a repeated POST is answered and nothing else happens, even when
// asynq and the records have long forgotten the push.
func TestAnEndedPushIsNotEnqueuedAgain(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		s := newStory(t, client)
		intake := NewIntake(client, Swrve, testRetention)
		inspector := asynq.NewInspectorFromRedisClient(client)
		replayed, err := intake.Accept(t.Context(), s.push, true)
		require.NoError(t, err)
		require.False(t, replayed)
		s.begun("a")
		s.succeed("a")
		require.NoError(t, inspector.DeleteTask(Swrve.ImmediateQueue(), s.push.ID))
		require.NoError(t, client.Del(t.Context(), Swrve.RecordKey(s.push.ID)).Err())

		later := s.push
		later.CreatedAt = MillisOf(time.Now().Add(time.Minute))
		replayed, err = intake.Accept(t.Context(), later, true)
		require.NoError(t, err)
		require.True(t, replayed)
		_, err = inspector.GetTaskInfo(Swrve.ImmediateQueue(), s.push.ID)
		require.ErrorIs(t, err, asynq.ErrTaskNotFound)
	})
}

func TestAClaimLivesUntilLongAfterTheDueTime(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		intake := NewIntake(client, Swrve, testRetention)
		for _, wait := range []time.Duration{0, 100 * 24 * time.Hour} {
			push := newPush()
			if wait > 0 {
				push = newWindowedPush(time.Now().Add(wait))
			}
			_, err := intake.Accept(t.Context(), push, true)
			require.NoError(t, err)
			lifetime, err := client.TTL(t.Context(), Swrve.ClaimKey(push.ID)).Result()
			require.NoError(t, err)
			require.InDelta(t, (wait + testRetention.Dead).Seconds(), lifetime.Seconds(), 60)
		}
	})
}

// A key whose claim and record have expired is free again, although asynq still
// keeps the task of its first push.
func TestAForgottenTaskMakesRoom(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		retention := testRetention
		retention.Dead = 10 * time.Second
		intake := NewIntake(client, Swrve, retention)
		inspector := asynq.NewInspectorFromRedisClient(client)
		first := newPush()
		_, err := intake.Accept(t.Context(), first, true)
		require.NoError(t, err)
		require.NoError(t, inspector.ArchiveTask(Swrve.ImmediateQueue(), first.ID))
		require.NoError(t, client.Del(t.Context(), Swrve.ClaimKey(first.ID)).Err())

		other := first
		other.Message = "other"
		accept := func(push Push) (bool, error) {
			require.NoError(t, client.Del(t.Context(), Swrve.ClaimKey(push.ID)).Err())
			return intake.Accept(t.Context(), push, true)
		}
		// Too young: it belongs to a caller with the same key that was quicker.
		replayed, err := accept(first)
		require.NoError(t, err)
		require.True(t, replayed)
		_, err = accept(other)
		require.ErrorIs(t, err, ErrContentDiffers)

		other.CreatedAt = first.CreatedAt + Millis((20 * time.Second).Milliseconds())
		replayed, err = accept(other)
		require.NoError(t, err)
		require.False(t, replayed)
		task, err := inspector.GetTaskInfo(Swrve.ImmediateQueue(), first.ID)
		require.NoError(t, err)
		require.Equal(t, asynq.TaskStatePending, task.State)
		require.Contains(t, string(task.Payload), `"message":"other"`)

		// One that still waits does not make room, however old.
		later := other
		later.Message, later.CreatedAt = "later", other.CreatedAt+Millis(time.Hour.Milliseconds())
		_, err = accept(later)
		require.ErrorIs(t, err, ErrContentDiffers)
	})
}
