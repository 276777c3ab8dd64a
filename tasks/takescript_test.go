package tasks

import (
	"context"
	"sync"
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

// taking takes with a taker and returns the ids too.
func taking(t *testing.T, taker *Taker, count int) (ids []string, taken []Taken) {
	t.Helper()
	taken, err := taker.Take(t.Context(), count)
	require.NoError(t, err)
	ids = []string{}
	for _, one := range taken {
		ids = append(ids, one.ID)
	}
	return ids, taken
}

func idsIn(t *testing.T, client *redis.Client, place asynq.TaskState) []string {
	t.Helper()
	return client.LRange(t.Context(), asynqStateKey(takeQueue, place), 0, -1).Val()
}

// What Take leaves behind is what a real asynq server does.
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
			_, taken := taking(t, NewTaker(client, takeQueue), 5)
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
		require.InDelta(t, time.Now().Add(30*time.Second).Unix(), score, 25)
		found[who] = result
	}
	require.Equal(t, found["asynq"], found["pushq"])
}

func TestTakeTakesTheOldest(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		ids := pendingPushes(t, client, 5)
		one, other := NewTaker(client, takeQueue), NewTaker(client, takeQueue)
		first, _ := taking(t, one, 3)
		require.Equal(t, ids[:3], first)
		second, _ := taking(t, other, 3)
		require.Equal(t, ids[3:], second)
		none, _ := taking(t, one, 3)
		require.Empty(t, none)
		require.Len(t, idsIn(t, client, asynq.TaskStateActive), 5)
		require.EqualValues(t, 5, client.ZCard(t.Context(), asynqLeaseKey(takeQueue)).Val())
	})
}

func TestNothingIsTakenFromAPausedQueue(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		ids := pendingPushes(t, client, 1)
		require.NoError(t, client.Set(t.Context(), asynqPausedKey(takeQueue), "1", 0).Err())
		none, _ := taking(t, NewTaker(client, takeQueue), 1)
		require.Empty(t, none)
		require.Equal(t, ids, idsIn(t, client, asynq.TaskStatePending))
	})
}

// A call whose answer was lost is repeated, and brings what it took the first time:
// also when the queue has been paused since. Other takers get others.
func TestALostTakeIsRepeated(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		pendingPushes(t, client, 5)
		taker := NewTaker(client, takeQueue)
		_, first := taking(t, taker, 2)
		require.False(t, taker.Unanswered())
		taker.unanswered = true
		require.NoError(t, client.Set(t.Context(), asynqPausedKey(takeQueue), "1", 0).Err())
		_, again := taking(t, taker, 2)
		require.Equal(t, first, again)
		require.NoError(t, client.Del(t.Context(), asynqPausedKey(takeQueue)).Err())

		taker.unanswered = true
		somebodyElses := redis.Z{Score: float64(taker.leaseEnd.Unix() + 5), Member: first[0].ID}
		require.NoError(t, client.ZAddXX(t.Context(), asynqLeaseKey(takeQueue), somebodyElses).Err())
		_, again = taking(t, taker, 2)
		require.Equal(t, first[1:], again, "somebody works at the other one")

		_, others := taking(t, NewTaker(client, takeQueue), 2)
		_, next := taking(t, taker, 2)
		require.Len(t, append(others, next...), 3)
		for _, one := range append(others, next...) {
			require.NotEqual(t, first[0].ID, one.ID)
			require.NotEqual(t, first[1].ID, one.ID)
		}

		taker.unanswered, taker.leaseEnd = true, time.Now().Add(asynqLeaseDuration-repeatable)
		late, _ := taking(t, taker, 2)
		require.Empty(t, late, "after so long it is another call")
	})
}

// Many take at the same instant.
func TestNoTaskIsTakenTwice(t *testing.T) {
	t.Parallel()
	client := testenv.StartRedis(t).Client(t)
	const takers, pushes = 8, 2000
	pendingPushes(t, client, pushes)
	taken := make(chan string, 2*pushes)
	var all sync.WaitGroup
	for range takers {
		all.Go(func() {
			taker := NewTaker(client, takeQueue)
			for {
				some, err := taker.Take(t.Context(), 3)
				if err != nil || len(some) == 0 {
					return
				}
				for _, one := range some {
					taken <- one.ID
				}
			}
		})
	}
	all.Wait()
	close(taken)
	seen := map[string]bool{}
	for id := range taken {
		require.False(t, seen[id], id)
		seen[id] = true
	}
	require.Len(t, seen, pushes)
}

func TestATaskThatIsGoneIsNotTaken(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		ids := pendingPushes(t, client, 3)
		require.NoError(t, client.Del(t.Context(), asynqTaskKey(takeQueue, ids[1])).Err())
		taken, _ := taking(t, NewTaker(client, takeQueue), 3)
		require.Equal(t, []string{ids[0], ids[2]}, taken)
		require.Contains(t, idsIn(t, client, asynq.TaskStateActive), ids[1], "as asynq leaves it")
	})
}

func TestWhatIsGivenBackIsTakenNext(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		ids := pendingPushes(t, client, 5)
		taker := NewTaker(client, takeQueue)
		_, taken := taking(t, taker, 3)
		require.NoError(t, taker.GiveBack(t.Context(), taken[1:]))
		require.Equal(t, ids[:1], idsIn(t, client, asynq.TaskStateActive))
		require.EqualValues(t, 1, client.ZCard(t.Context(), asynqLeaseKey(takeQueue)).Val())
		info, err := asynq.NewInspectorFromRedisClient(client).GetTaskInfo(takeQueue, ids[1])
		require.NoError(t, err)
		require.Equal(t, asynq.TaskStatePending, info.State)
		again, _ := taking(t, taker, 5)
		require.Equal(t, ids[1:], again)
	})
}

// Others may have got a task meanwhile, or it has ended.
func TestOnlyWhatIsStillHeldIsGivenBack(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		for name, meanwhile := range map[string]struct {
			others func(id string)
			active int
		}{
			"taken back": {func(id string) {
				require.NoError(t, client.LRem(t.Context(), asynqStateKey(takeQueue, asynq.TaskStateActive), 0, id).Err())
				require.NoError(t, client.ZRem(t.Context(), asynqLeaseKey(takeQueue), id).Err())
			}, 0},
			"taken by another worker": {func(id string) {
				lease := redis.Z{Score: float64(time.Now().Add(time.Minute).Unix()), Member: id}
				require.NoError(t, client.ZAdd(t.Context(), asynqLeaseKey(takeQueue), lease).Err())
			}, 1},
		} {
			require.NoError(t, client.FlushDB(t.Context()).Err())
			pendingPushes(t, client, 1)
			taker := NewTaker(client, takeQueue)
			_, taken := taking(t, taker, 1)
			meanwhile.others(taken[0].ID)
			require.NoError(t, taker.GiveBack(t.Context(), taken), name)
			require.Empty(t, idsIn(t, client, asynq.TaskStatePending), name)
			require.Len(t, idsIn(t, client, asynq.TaskStateActive), meanwhile.active, name)
			require.Equal(t, "active", client.HGet(t.Context(), asynqTaskKey(takeQueue, taken[0].ID), "state").Val(), name)
		}
	})
}
