package tasks

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"pushq/internal/testenv"
)

func readQueueStats(t *testing.T, client redis.UniversalClient, now time.Time) map[string]QueueStats {
	t.Helper()
	all, err := ReadQueueStats(t.Context(), client, Swrve, now)
	require.NoError(t, err)
	found := make(map[string]QueueStats)
	for _, stats := range all {
		found[stats.Queue] = stats
	}
	return found
}

func TestQueueStats(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		ctx := t.Context()
		const queue = "swrve"
		empty := map[asynq.TaskState]int64{
			asynq.TaskStatePending: 0, asynq.TaskStateActive: 0, asynq.TaskStateScheduled: 0,
			asynq.TaskStateRetry: 0, asynq.TaskStateArchived: 0, asynq.TaskStateCompleted: 0,
		}
		require.Equal(t, map[string]QueueStats{
			queue: {Queue: queue, Tasks: empty}, "swrve-window": {Queue: "swrve-window", Tasks: empty},
		}, readQueueStats(t, client, time.Now()))

		require.NoError(t, client.LPush(ctx, asynqStateKey(queue, asynq.TaskStateActive), "held", "forgotten").Err())
		require.NoError(t, client.ZAdd(ctx, asynqLeaseKey(queue), redis.Z{Score: 1, Member: "held"}).Err())
		later := float64(time.Now().Add(time.Hour).Unix())
		for state, count := range map[asynq.TaskState]int{
			asynq.TaskStateScheduled: 3, asynq.TaskStateRetry: 4, asynq.TaskStateArchived: 5, asynq.TaskStateCompleted: 6,
		} {
			for number := range count {
				require.NoError(t, client.ZAdd(ctx, asynqStateKey(queue, state), redis.Z{Score: later, Member: strconv.Itoa(number)}).Err())
			}
		}
		inspector := asynq.NewInspectorFromRedisClient(client)
		require.NoError(t, RegisterQueues(ctx, client, Swrve))
		require.NoError(t, inspector.PauseQueue("swrve-window"))
		got := readQueueStats(t, client, time.Now())
		require.Equal(t, QueueStats{
			Queue: queue, ActiveWithoutLease: 1,
			Tasks: map[asynq.TaskState]int64{
				asynq.TaskStatePending: 0, asynq.TaskStateActive: 2, asynq.TaskStateScheduled: 3,
				asynq.TaskStateRetry: 4, asynq.TaskStateArchived: 5, asynq.TaskStateCompleted: 6,
			},
		}, got[queue])
		require.Equal(t, QueueStats{Queue: "swrve-window", Paused: true, Tasks: empty}, got["swrve-window"])
	})
}

func TestTheOldestPushOfAQueue(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		ctx := t.Context()
		intake := NewIntake(client, Swrve, testRetention)
		t.Cleanup(intake.Close)
		accepted := time.Now()
		first := newPush()
		for _, push := range []Push{first, newPush(), newPush()} {
			_, err := intake.Accept(ctx, push, false)
			require.NoError(t, err)
		}
		oldest := func(queue string, after time.Duration) time.Duration {
			return readQueueStats(t, client, accepted.Add(after))[queue].Oldest
		}
		require.InDelta(t, time.Minute, oldest("swrve", time.Minute), float64(30*time.Second))
		require.Zero(t, oldest("swrve-window", time.Minute))

		// A ghost at the front, and one that an operator has requeued, hide
		// nothing; without any time there is no age.
		require.NoError(t, client.Del(ctx, asynqTaskKey("swrve", first.ID)).Err())
		require.InDelta(t, time.Minute, oldest("swrve", time.Minute), float64(30*time.Second))
		pending, err := client.LRange(ctx, asynqStateKey("swrve", asynq.TaskStatePending), 0, -1).Result()
		require.NoError(t, err)
		for _, id := range pending {
			require.NoError(t, client.HDel(ctx, asynqTaskKey("swrve", id), "pending_since").Err())
		}
		require.Zero(t, oldest("swrve", time.Minute))

		// Due, and nobody has made it pending: no worker runs.
		due := accepted.Add(10 * time.Minute)
		_, err = intake.Accept(ctx, newWindowedPush(due), false)
		require.NoError(t, err)
		require.Zero(t, oldest("swrve-window", 9*time.Minute))
		require.InDelta(t, 5*time.Minute, oldest("swrve-window", 15*time.Minute), float64(30*time.Second))
		require.NoError(t, client.ZAdd(ctx, asynqStateKey("swrve", asynq.TaskStateRetry),
			redis.Z{Score: float64(accepted.Add(time.Minute).Unix()), Member: "retry"}).Err())
		require.InDelta(t, 2*time.Minute, oldest("swrve", 3*time.Minute), float64(30*time.Second))
	})
}

func TestAFaultInOneQueueHidesThatQueueOnly(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		require.NoError(t, client.Set(t.Context(), asynqStateKey("swrve-window", asynq.TaskStateRetry), "text", 0).Err())
		all, err := ReadQueueStats(t.Context(), client, Swrve, time.Now())
		require.ErrorContains(t, err, "count queue swrve-window")
		require.ErrorIs(t, err, ErrUnreadable)
		require.Len(t, all, 1)
		require.Equal(t, "swrve", all[0].Queue)
	})
}

// commandCount counts round trips and commands.
type commandCount struct{ pipelines, commands int }

func (c *commandCount) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *commandCount) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		c.pipelines++
		c.commands++
		return next(ctx, command)
	}
}

func (c *commandCount) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		c.pipelines++
		c.commands += len(commands)
		return next(ctx, commands)
	}
}

func TestCountingAMillionPushesCostsTheSame(t *testing.T) {
	t.Parallel()
	client := testenv.StartRedis(t).Client(t)
	fill := redis.NewScript(`for i = ARGV[1], ARGV[2] do redis.call('LPUSH', KEYS[1], 'push-' .. i) end return 1`)
	pending := []string{asynqStateKey("swrve", asynq.TaskStatePending)}
	count := &commandCount{}
	counted := hooked(t, client, count)
	measure := func() (commandCount, time.Duration) {
		*count = commandCount{}
		var times []time.Duration
		for range 5 {
			started := time.Now()
			readQueueStats(t, counted, time.Now())
			times = append(times, time.Since(started))
		}
		return *count, slices.Min(times)
	}
	require.NoError(t, fill.Run(t.Context(), client, pending, 1, 100).Err())
	measure() // connects
	few, quick := measure()
	for part := range 10 {
		require.NoError(t, fill.Run(t.Context(), client, pending, part*100_000+1, (part+1)*100_000).Err())
	}
	many, took := measure()
	require.EqualValues(t, 1_000_100, readQueueStats(t, client, time.Now())["swrve"].Tasks[asynq.TaskStatePending])
	require.Equal(t, few, many)
	require.Equal(t, 5*2, many.pipelines, "two round trips")
	t.Logf("100 pushes: %s, 1,000,100 pushes: %s, %d commands", quick, took, many.commands/5)
	require.Less(t, took, 100*time.Millisecond)
}

// hooked is another client of the same server, with a hook.
func hooked(t *testing.T, client *redis.Client, hook redis.Hook) *redis.Client {
	t.Helper()
	another := redis.NewClient(&redis.Options{Addr: client.Options().Addr})
	another.AddHook(hook)
	t.Cleanup(func() { _ = another.Close() })
	return another
}
