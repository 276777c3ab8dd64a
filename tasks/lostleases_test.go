package tasks

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"pushq/internal/testenv"
)

// Every combination of what the hash, the active list and the leases say of a
// task; only one that is active everywhere, and whose lease has run out for
// longer than the grace, is taken back. Nothing of the others changes, and they
// hold up nothing: there are more than fit on a page.
func TestOnlyActiveTasksWithALostLeaseAreTakenBack(t *testing.T) {
	for _, channel := range Channels() {
		t.Run(channel.Name, func(t *testing.T) {
			onEachRedis(t, func(t *testing.T, client *redis.Client) {
				ctx, queue := t.Context(), channel.WindowQueue()
				caretaker := NewCaretaker(client, channel, NewRecords(client, channel, testRetention), slog.New(slog.DiscardHandler))
				leases, active, retry := asynqLeaseKey(queue), asynqStateKey(queue, asynq.TaskStateActive), asynqStateKey(queue, asynq.TaskStateRetry)

				var lost, others []string
				for _, state := range []string{"", "pending", "active", "scheduled", "retry", "archived", "completed"} {
					for _, message := range []string{"", "message"} {
						for _, listed := range []bool{false, true} {
							for _, lease := range []time.Duration{-4 * time.Hour, -3 * time.Hour, -2 * time.Hour, -time.Hour, -time.Minute, -leaseGrace, 0, 30 * time.Second, time.Hour} {
								id := fmt.Sprintf("%s %s %t %s", state, message, listed, lease)
								if state != "" {
									require.NoError(t, client.HSet(ctx, asynqTaskKey(queue, id), "state", state).Err())
								}
								if message != "" {
									require.NoError(t, client.HSet(ctx, asynqTaskKey(queue, id), "msg", message).Err())
								}
								if listed {
									require.NoError(t, client.LPush(ctx, active, id).Err())
								}
								require.NoError(t, client.ZAdd(ctx, leases, redis.Z{Score: float64(time.Now().Add(lease).Unix()), Member: id}).Err())
								if state == "active" && message != "" && listed && lease <= -leaseGrace {
									lost = append(lost, id)
								} else {
									others = append(others, id)
								}
							}
						}
					}
				}
				require.Greater(t, len(others), lostLeasesPage)
				story := func(id string) string {
					hash, err := client.HGetAll(ctx, asynqTaskKey(queue, id)).Result()
					require.NoError(t, err)
					return fmt.Sprint(hash, client.ZScore(ctx, leases, id), client.ZScore(ctx, retry, id), client.LPos(ctx, active, id, redis.LPosArgs{}).Err())
				}
				before := make(map[string]string)
				for _, id := range others {
					before[id] = story(id)
				}

				started := time.Now()
				taken, err := caretaker.takeBack(ctx, queue)
				require.NoError(t, err)
				require.Equal(t, len(lost), taken)
				for _, id := range lost {
					hash, err := client.HGetAll(ctx, asynqTaskKey(queue, id)).Result()
					require.NoError(t, err)
					require.Equal(t, "retry", hash["state"])
					require.Contains(t, hash["msg"], "message")
					require.ErrorIs(t, client.ZScore(ctx, leases, id).Err(), redis.Nil)
					require.ErrorIs(t, client.LPos(ctx, active, id, redis.LPosArgs{}).Err(), redis.Nil)
					require.InDelta(t, started.Add(takeBackDelay).Unix(), client.ZScore(ctx, retry, id).Val(), 3, id)
				}
				require.EqualValues(t, len(lost), client.ZCard(ctx, retry).Val())
				for _, id := range others {
					require.Equal(t, before[id], story(id), id)
				}
				taken, err = caretaker.takeBack(ctx, queue)
				require.NoError(t, err)
				require.Zero(t, taken, "once is enough")
			})
		})
	}
}

// A worker that is heard of in time keeps its push; one that is not loses it
// once, however many caretakers look.
func TestARenewedLeaseKeepsThePush(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	push := w.accept(newPush())
	w.take("swrve", time.Now().Add(-time.Minute), push.ID)
	renew := func(until time.Time) {
		require.NoError(t, w.client.ZAddXX(t.Context(), asynqLeaseKey("swrve"), redis.Z{Score: float64(until.Unix()), Member: push.ID}).Err())
	}
	renew(time.Now().Add(30 * time.Second))
	w.tidy(w.caretaker())
	require.Equal(t, InMemory, w.get(push.ID).State)

	renew(time.Now().Add(-time.Minute))
	taken := make(chan int)
	const caretakers = 4
	for range caretakers {
		go func() {
			count, _ := w.caretaker().takeBack(t.Context(), "swrve")
			taken <- count
		}()
	}
	total := 0
	for range caretakers {
		total += <-taken
	}
	require.Equal(t, 1, total)
	require.Equal(t, Retry, w.get(push.ID).State)
	renew(time.Now().Add(time.Hour)) // the worker was only late
	require.ErrorIs(t, w.client.ZScore(t.Context(), asynqLeaseKey("swrve"), push.ID).Err(), redis.Nil)
	require.Equal(t, Retry, w.get(push.ID).State)
	w.inspectable()
}

// asynq's recoverer and the caretaker leave the same behind: the error of a lost
// lease, and no retry counted.
func TestTakenBackAsByAsynqsRecoverer(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	lose := func() string {
		push := w.inState(Retry) // once failed
		require.NoError(t, w.inspector.RunTask("swrve", push.ID))
		w.take("swrve", time.Now().Add(-time.Hour), push.ID)
		return push.ID
	}
	look := func(id string) *asynq.TaskInfo {
		task, err := w.inspector.GetTaskInfo("swrve", id)
		require.NoError(t, err)
		return task
	}

	recovered := lose()
	worker := asynq.NewServerFromRedisClient(w.server.Client(t), asynq.Config{
		Queues: map[string]int{"swrve": 1}, LogLevel: asynq.FatalLevel,
		RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return time.Hour },
		IsFailure:      func(error) bool { return false },
	})
	require.NoError(t, worker.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return nil })))
	testenv.Eventually(t, 20*time.Second, "asynq to take it back", func() bool { return look(recovered).State == asynq.TaskStateRetry })
	worker.Shutdown()

	ours := lose()
	taken, err := w.caretaker().takeBack(t.Context(), "swrve")
	require.NoError(t, err)
	require.Equal(t, 1, taken)

	wanted, got := look(recovered), look(ours)
	require.Equal(t, asynq.ErrLeaseExpired.Error(), got.LastErr)
	require.Equal(t, 1, got.Retried, "the failure before")
	require.WithinDuration(t, time.Now(), got.LastFailedAt, time.Minute)
	for _, task := range []*asynq.TaskInfo{wanted, got} {
		task.ID, task.Payload, task.LastFailedAt, task.NextProcessAt = "", nil, time.Time{}, time.Time{}
	}
	require.Equal(t, wanted, got)
}
