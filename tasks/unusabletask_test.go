package tasks

import (
	"log/slog"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// poisonTask puts something of another type under the key of a task.
func poisonTask(t *testing.T, client *redis.Client, queue, id string) {
	t.Helper()
	key := asynqTaskKey(queue, id)
	require.NoError(t, client.Del(t.Context(), key).Err())
	require.NoError(t, client.RPush(t.Context(), key, "x").Err())
}

func TestATaskOfAnotherTypeCostsOnePush(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		ids := pendingPushes(t, client, 6)
		poisonTask(t, client, takeQueue, ids[2])
		taken, _ := taking(t, NewTaker(client, takeQueue), 6)
		require.Equal(t, append(append([]string{}, ids[:2]...), ids[3:]...), taken)
		for _, id := range taken {
			require.Equal(t, "active", client.HGet(t.Context(), asynqTaskKey(takeQueue, id), "state").Val())
		}
		require.Contains(t, idsIn(t, client, asynq.TaskStateActive), ids[2], "it is for the doctor")

		// The others come back if their worker dies.
		for _, id := range ids {
			past := float64(time.Now().Add(-time.Hour).Unix())
			require.NoError(t, client.ZAdd(t.Context(), asynqLeaseKey(takeQueue), redis.Z{Score: past, Member: id}).Err())
		}
		caretaker := NewCaretaker(client, Swrve, NewRecords(client, Swrve, testRetention), slog.New(slog.DiscardHandler))
		count, err := caretaker.takeBack(t.Context(), takeQueue)
		require.NoError(t, err)
		require.Equal(t, 5, count)
		require.Equal(t, []string{ids[2]}, idsIn(t, client, asynq.TaskStateActive))
	})
}

// asynq forwards what is due in the order of time, and breaks off at such a key.
func TestATaskOfAnotherTypeHoldsUpNothingThatIsDue(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	queue := Swrve.WindowQueue()
	var ids []string
	for range 4 {
		push := newWindowedPush(time.Now().Add(time.Hour))
		ids = append(ids, d.accept(push).ID)
	}
	scheduled := asynqStateKey(queue, asynq.TaskStateScheduled)
	for place, id := range ids {
		due := float64(time.Now().Unix() - 100 + int64(place))
		require.NoError(t, d.client.ZAdd(t.Context(), scheduled, redis.Z{Score: due, Member: id}).Err())
	}
	poisonTask(t, d.client, queue, ids[1])
	caretaker := NewCaretaker(d.client, Swrve, d.records, slog.New(slog.DiscardHandler))
	require.NoError(t, caretaker.setAside(t.Context(), queue))
	require.Equal(t, []string{ids[0], ids[2], ids[3]}, d.client.ZRange(t.Context(), scheduled, 0, -1).Val())
	require.Equal(t, []string{ids[1]}, d.client.LRange(t.Context(), asynqStateKey(queue, asynq.TaskStateActive), 0, -1).Val())
}

func TestAnUnusableTaskHidesNoOthers(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(client *redis.Client, key string) error{
		"of another type": func(client *redis.Client, key string) error {
			if err := client.Del(t.Context(), key).Err(); err != nil {
				return err
			}
			return client.RPush(t.Context(), key, "x").Err()
		},
		"no message": func(client *redis.Client, key string) error {
			return client.HSet(t.Context(), key, "msg", "no protobuf").Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			good, bad := d.inState(Pending), d.inState(Pending)
			require.NoError(t, spoil(d.client, asynqTaskKey(takeQueue, bad.ID)))
			require.True(t, d.listed(Pending, good.ID))
			require.False(t, d.listed(Pending, bad.ID))
			_, err := d.reader.Get(t.Context(), bad.ID)
			require.ErrorIs(t, err, ErrUnusableKey)
			require.ErrorContains(t, err, asynqTaskKey(takeQueue, bad.ID))
		})
	}
}

// The doctor names the keys, and goes on.
func TestTheDoctorNamesUnusableTasks(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	ids := pendingPushes(t, w.client, 3)
	poisonTask(t, w.client, takeQueue, ids[1])
	require.NoError(t, w.client.HDel(t.Context(), asynqTaskKey(takeQueue, ids[2]), "msg").Err())
	found := w.examine(true)
	require.Equal(t, []string{ids[1]}, found["unusable-task swrve"].Examples)
	require.Contains(t, found["unusable-task swrve"].Repair, "redis-cli DEL 'asynq:{swrve}:t:ID'")
	require.Equal(t, 1, found["ghost swrve"].Fixed, "the next fault is mended")

	require.NoError(t, w.client.Del(t.Context(), asynqTaskKey(takeQueue, ids[1])).Err())
	found = w.examine(true)
	require.NotContains(t, found, "unusable-task swrve")
	require.Equal(t, 1, found["ghost swrve"].Fixed)
	require.Empty(t, w.examine(false))
}
