package tasks

import (
	"context"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"pushq/internal/testenv"
)

var takeQueue = Swrve.ImmediateQueue()

// pendingPushes enqueues so many pushes and returns their ids, the oldest first.
func pendingPushes(t *testing.T, client *redis.Client, count int) []string {
	t.Helper()
	ids := make([]string, count)
	for place := range ids {
		s := newStory(t, client)
		s.enqueue()
		ids[place] = s.push.ID
	}
	return ids
}

func takeFrom(t *testing.T, client *redis.Client, leaseEnd time.Time, count int) (ids []string, taken []Taken) {
	t.Helper()
	taken, err := Take(t.Context(), client, takeQueue, leaseEnd, count)
	require.NoError(t, err)
	ids = []string{}
	for _, one := range taken {
		ids = append(ids, one.ID)
	}
	return ids, taken
}

func inOneMinute() time.Time { return time.Now().Add(time.Minute) }

func idsIn(t *testing.T, client *redis.Client, place asynq.TaskState) []string {
	t.Helper()
	return client.LRange(t.Context(), asynqStateKey(takeQueue, place), 0, -1).Val()
}

// What Take leaves behind is what a real asynq server does, but for the fraction of
// a second in the lease.
func TestTasksAreTakenAsByAsynq(t *testing.T) {
	t.Parallel()
	type left struct {
		keys    map[string]string
		task    map[string]string
		message string
	}
	found := map[string]left{}
	for who, takeOne := range map[string]func(*testing.T, *redis.Client) (message string){
		"asynq": func(t *testing.T, client *redis.Client) string {
			server := asynq.NewServerFromRedisClient(client, asynq.Config{Queues: map[string]int{takeQueue: 1}, LogLevel: asynq.FatalLevel})
			running, end := make(chan struct{}), make(chan struct{})
			require.NoError(t, server.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
				close(running)
				<-end
				return nil
			})))
			t.Cleanup(func() { close(end); server.Shutdown() })
			<-running
			return client.HGet(t.Context(), asynqTaskKey(takeQueue, "01K2J8Z8W0000000000000000A"), "msg").Val()
		},
		"pushq": func(t *testing.T, client *redis.Client) string {
			_, taken := takeFrom(t, client, time.Now().Add(30*time.Second), 5)
			require.Len(t, taken, 1)
			return taken[0].Message
		},
	} {
		client := testenv.StartRedis(t).Client(t)
		s := newStory(t, client)
		s.push.ID, s.push.CreatedAt = "01K2J8Z8W0000000000000000A", 1764313200000
		s.enqueue()
		result := left{message: takeOne(t, client), keys: map[string]string{}}
		for _, key := range client.Keys(t.Context(), "asynq:{"+takeQueue+"}*").Val() {
			result.keys[key] = client.Type(t.Context(), key).Val()
		}
		result.task = client.HGetAll(t.Context(), asynqTaskKey(takeQueue, s.push.ID)).Val()
		require.Equal(t, []string{s.push.ID}, idsIn(t, client, asynq.TaskStateActive))
		score := client.ZScore(t.Context(), asynqLeaseKey(takeQueue), s.push.ID).Val()
		require.InDelta(t, time.Now().Add(30*time.Second).Unix(), score, 5)
		found[who] = result
	}
	require.Equal(t, found["asynq"], found["pushq"])
}

func TestTakeTakesTheOldest(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		ids := pendingPushes(t, client, 5)
		first, _ := takeFrom(t, client, inOneMinute(), 3)
		require.Equal(t, ids[:3], first)
		second, _ := takeFrom(t, client, inOneMinute(), 3)
		require.Equal(t, ids[3:], second)
		none, _ := takeFrom(t, client, inOneMinute(), 3)
		require.Empty(t, none)
		require.Len(t, idsIn(t, client, asynq.TaskStateActive), 5)
		require.EqualValues(t, 5, client.ZCard(t.Context(), asynqLeaseKey(takeQueue)).Val())
	})
}

func TestNothingIsTakenFromAPausedQueue(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		ids := pendingPushes(t, client, 1)
		require.NoError(t, client.Set(t.Context(), asynqPausedKey(takeQueue), "1", 0).Err())
		none, _ := takeFrom(t, client, inOneMinute(), 1)
		require.Empty(t, none)
		require.Equal(t, ids, idsIn(t, client, asynq.TaskStatePending))
	})
}

// A call whose answer was lost is repeated, and brings what it took the first time:
// also when the queue has been paused since.
func TestTakeMayBeRepeated(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		pendingPushes(t, client, 5)
		leaseEnd := inOneMinute()
		_, first := takeFrom(t, client, leaseEnd, 2)
		require.NoError(t, client.Set(t.Context(), asynqPausedKey(takeQueue), "1", 0).Err())
		_, again := takeFrom(t, client, leaseEnd, 2)
		require.ElementsMatch(t, first, again)
		require.NoError(t, client.Del(t.Context(), asynqPausedKey(takeQueue)).Err())

		require.NoError(t, client.ZAddXX(t.Context(), asynqLeaseKey(takeQueue), redis.Z{Score: float64(time.Now().Unix() + 30), Member: first[0].ID}).Err())
		_, again = takeFrom(t, client, leaseEnd, 2)
		require.Equal(t, first[1:], again, "somebody works at the other one")
		_, other := takeFrom(t, client, leaseEnd.Add(time.Microsecond), 2)
		require.Len(t, other, 2)
		require.NotContains(t, other, first[0])
		require.NotContains(t, other, first[1])
	})
}

func TestATaskThatIsGoneIsNotTaken(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		ids := pendingPushes(t, client, 3)
		require.NoError(t, client.Del(t.Context(), asynqTaskKey(takeQueue, ids[1])).Err())
		taken, _ := takeFrom(t, client, inOneMinute(), 3)
		require.Equal(t, []string{ids[0], ids[2]}, taken)
		require.Contains(t, idsIn(t, client, asynq.TaskStateActive), ids[1], "as asynq leaves it")
	})
}

func TestWhatIsGivenBackIsTakenNext(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		ids := pendingPushes(t, client, 5)
		_, taken := takeFrom(t, client, inOneMinute(), 3)
		require.NoError(t, GiveBack(t.Context(), client, takeQueue, taken[1:]))
		require.Equal(t, ids[:1], idsIn(t, client, asynq.TaskStateActive))
		require.EqualValues(t, 1, client.ZCard(t.Context(), asynqLeaseKey(takeQueue)).Val())
		info, err := asynq.NewInspectorFromRedisClient(client).GetTaskInfo(takeQueue, ids[1])
		require.NoError(t, err)
		require.Equal(t, asynq.TaskStatePending, info.State)
		again, _ := takeFrom(t, client, inOneMinute(), 5)
		require.Equal(t, ids[1:], again)
	})
}

// Others may have got a task meanwhile, or it has ended.
func TestOnlyWhatIsStillHeldIsGivenBack(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		pendingPushes(t, client, 1)
		_, taken := takeFrom(t, client, inOneMinute(), 1)
		require.NoError(t, client.LRem(t.Context(), asynqStateKey(takeQueue, asynq.TaskStateActive), 0, taken[0].ID).Err())
		require.NoError(t, client.HSet(t.Context(), asynqTaskKey(takeQueue, taken[0].ID), "state", "retry").Err())
		require.NoError(t, GiveBack(t.Context(), client, takeQueue, taken))
		require.Empty(t, idsIn(t, client, asynq.TaskStatePending))
		require.Equal(t, "retry", client.HGet(t.Context(), asynqTaskKey(takeQueue, taken[0].ID), "state").Val())
	})
}
