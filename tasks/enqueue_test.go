package tasks

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"pushq/internal/testenv"
	"pushq/internal/tracing"
	"pushq/scheduler"
)

// everything is what a Redis has by key, but the times since when tasks are pending.
func everything(t *testing.T, client *redis.Client) map[string]any {
	all := make(map[string]any)
	keys, err := client.Keys(t.Context(), "*").Result()
	require.NoError(t, err)
	for _, key := range keys {
		switch kind := client.Type(t.Context(), key).Val(); kind {
		case "hash":
			task := client.HGetAll(t.Context(), key).Val()
			if since, err := strconv.ParseInt(task["pending_since"], 10, 64); err == nil {
				require.WithinDuration(t, time.Now(), time.Unix(0, since), time.Minute)
				task["pending_since"] = "then"
			}
			all[key] = task
		case "list":
			all[key] = client.LRange(t.Context(), key, 0, -1).Val()
		case "zset":
			all[key] = client.ZRangeWithScores(t.Context(), key, 0, -1).Val()
		case "set":
			all[key] = client.SMembersMap(t.Context(), key).Val()
		default:
			require.Fail(t, "no such kind of key is known", "%s %s", kind, key)
		}
	}
	return all
}

// What pushq leaves in Redis is byte for byte what asynq's own client would.
func TestEnqueuedAsByAsynq(t *testing.T) {
	t.Parallel()
	openNow := newWindowedPush(time.Now())
	openNow.CreatedAt = openNow.DueAt
	// With more than one header asynq's own order is a matter of luck.
	traced := newPush()
	traced.Trace = tracing.New("", traceParent, "")
	odd := newPush()
	odd.Message = "\"<&>\u2028\U0001f600 \\" + string(make([]byte, 300))
	for name, retention := range map[string]Retention{"completed are kept": testRetention, "completed are forgotten": {Dead: time.Hour}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ours, theirs := testenv.StartRedis(t).Client(t), testenv.StartRedis(t).Client(t)
			require.NoError(t, RegisterQueues(t.Context(), theirs, Swrve))
			intake, client := NewIntake(ours, Swrve, retention), asynq.NewClientFromRedisClient(theirs)
			for _, push := range []Push{
				newPush(), newPush(), odd, traced, openNow, newWindowedPush(time.Now().Add(time.Hour)), newWindowedPush(time.Now().Add(2 * time.Hour)),
			} {
				_, err := intake.Accept(t.Context(), push, false)
				require.NoError(t, err)

				task, err := newTask(Swrve, push, retention)
				require.NoError(t, err)
				var options []asynq.Option
				if push.DueAt > push.CreatedAt {
					options = append(options, asynq.ProcessAt(scheduler.CeilSecond(push.DueAt.Time())))
				}
				_, err = client.Enqueue(task, options...)
				require.NoError(t, err)
			}
			intake.Close()
			require.Equal(t, everything(t, theirs), everything(t, ours))
			require.Len(t, everything(t, ours), 7+4, "the tasks, their three places, and asynq's list of queues")
		})
	}
}

// enqueue runs the script alone.
func enqueue(t *testing.T, client *redis.Client, state asynq.TaskState, tasks ...[3]string) []int64 {
	keys, arguments := []string{asynqStateKey("swrve", state)}, []any{state.String()}
	for _, task := range tasks {
		keys = append(keys, asynqTaskKey("swrve", task[0]))
		arguments = append(arguments, task[0], task[1], task[2])
	}
	taken, err := enqueueScript.Run(t.Context(), client, keys, arguments...).Int64Slice()
	require.NoError(t, err)
	return taken
}

func TestEnqueueScriptLeavesTakenIdsAlone(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		require.Empty(t, enqueue(t, client, asynq.TaskStatePending, [3]string{"a", "first", "1"}, [3]string{"b", "second", "2"}))
		require.Equal(t, []int64{1, 3}, enqueue(t, client, asynq.TaskStatePending,
			[3]string{"b", "other", "3"}, [3]string{"c", "third", "3"}, [3]string{"c", "again", "4"}))
		require.Equal(t, []int64{1}, enqueue(t, client, asynq.TaskStateScheduled, [3]string{"a", "other", "5"}, [3]string{"d", "fourth", "6"}))
		require.Equal(t, []int64{1, 2, 3, 4}, enqueue(t, client, asynq.TaskStatePending,
			[3]string{"a", "", "7"}, [3]string{"b", "", "7"}, [3]string{"c", "", "7"}, [3]string{"d", "", "7"}))

		ids, err := client.LRange(t.Context(), "asynq:{swrve}:pending", 0, -1).Result()
		require.NoError(t, err)
		require.Equal(t, []string{"c", "b", "a"}, ids, "the newest first")
		later, err := client.ZRangeWithScores(t.Context(), "asynq:{swrve}:scheduled", 0, -1).Result()
		require.NoError(t, err)
		require.Equal(t, []redis.Z{{Score: 6, Member: "d"}}, later)
		for id, want := range map[string]map[string]string{
			"a": {"msg": "first", "state": "pending", "pending_since": "1"},
			"b": {"msg": "second", "state": "pending", "pending_since": "2"},
			"c": {"msg": "third", "state": "pending", "pending_since": "3"},
			"d": {"msg": "fourth", "state": "scheduled"},
		} {
			hash, err := client.HGetAll(t.Context(), asynqTaskKey("swrve", id)).Result()
			require.NoError(t, err)
			require.Equal(t, want, hash)
		}
	})
}

// groups counts how many pushes each call of the script takes.
type groups struct {
	mutex  sync.Mutex
	counts []int
}

func (g *groups) pushes() (sum int) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	for _, count := range g.counts {
		sum += count
	}
	return sum
}

func (g *groups) DialHook(next redis.DialHook) redis.DialHook { return next }

func (g *groups) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (g *groups) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		for _, command := range commands {
			if command.Name() != "evalsha" {
				continue // the setup of a connection
			}
			g.mutex.Lock()
			g.counts = append(g.counts, command.Args()[2].(int)-1)
			g.mutex.Unlock()
		}
		return next(ctx, commands)
	}
}

// Pushes that come while one is on its way go together, up to a number of them,
// or of their bytes.
func TestPushesGoTogether(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct {
		message string
		pushes  int
		groups  []int
	}{
		"small":   {"Hello client!", 299, []int{1, 128, 128, 43}},
		"32 KiB":  {string(make([]byte, 32<<10/len(`\u0000`))), 8, []int{1, 4, 4}},
		"200 KiB": {string(make([]byte, 200<<10/len(`\u0000`))), 3, []int{1, 1, 1, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testenv.StartRedis(t)
			warm := NewIntake(server.Client(t), Swrve, testRetention) // Redis knows the script then
			_, err := warm.Accept(t.Context(), newPush(), false)
			require.NoError(t, err)
			warm.Close()

			client, seen := server.Client(t), &groups{}
			client.AddHook(seen)
			enqueuer := newEnqueuer(client, Swrve, testRetention)
			server.Freeze()
			var underway []*enqueuing
			var last Push
			for count := range want.pushes {
				push := newPush()
				push.Message = want.message
				last = push
				one, err := enqueuer.enqueue(push)
				require.NoError(t, err)
				underway = append(underway, one)
				if count == 0 {
					testenv.Eventually(t, 5*time.Second, "the first to be on its way", func() bool {
						enqueuer.mutex.Lock()
						defer enqueuer.mutex.Unlock()
						return len(enqueuer.waiting[place{Swrve.ImmediateQueue(), asynq.TaskStatePending}]) == 0
					})
				}
			}
			again, err := enqueuer.enqueue(last)
			require.NoError(t, err)
			server.Thaw()
			for _, one := range underway {
				<-one.done
				require.NoError(t, one.err)
				require.False(t, one.taken)
			}
			<-again.done
			require.NoError(t, again.err)
			require.True(t, again.taken, "also in one group with the first of its id")
			enqueuer.close()
			require.ElementsMatch(t, want.groups, seen.counts)
			require.Equal(t, want.pushes+1, countTasks(t, openInspector(t, server)))
		})
	}
}
