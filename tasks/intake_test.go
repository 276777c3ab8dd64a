package tasks

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"pushq/internal/redisconn"
	"pushq/internal/testenv"
	"pushq/scheduler"
)

// openIntake returns an intake on the client that the service uses.
func openIntake(t *testing.T, url string) *Intake {
	clients, err := redisconn.Open(url, 0)
	require.NoError(t, err)
	intake := NewIntake(clients.Intake, Swrve, testRetention)
	t.Cleanup(func() {
		intake.Close()
		_ = clients.Close()
	})
	return intake
}

func openInspector(t *testing.T, server *testenv.Redis) *asynq.Inspector {
	return asynq.NewInspectorFromRedisClient(server.Client(t))
}

// countTasks counts the tasks of both queues.
func countTasks(t *testing.T, inspector *asynq.Inspector) int {
	count := 0
	for _, queue := range Swrve.Queues() {
		info, err := inspector.GetQueueInfo(queue)
		if err != nil && strings.Contains(err.Error(), "does not exist") {
			continue // nothing was ever enqueued
		}
		require.NoError(t, err)
		count += info.Size
	}
	return count
}

func TestAcceptedPushesAreInTheirQueue(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	intake, inspector := openIntake(t, server.URL()), openInspector(t, server)

	windowed := newWindowedPush(time.Now().Add(time.Hour))
	openNow := newWindowedPush(time.Now())
	openNow.CreatedAt = openNow.DueAt
	for name, want := range map[string]struct {
		push  Push
		keyed bool
		queue string
		state asynq.TaskState
	}{
		"immediate":              {newPush(), false, "swrve", asynq.TaskStatePending},
		"immediate, keyed":       {newPush(), true, "swrve", asynq.TaskStatePending},
		"waiting for a window":   {windowed, false, "swrve-window", asynq.TaskStateScheduled},
		"with a window open now": {openNow, false, "swrve-window", asynq.TaskStatePending},
	} {
		replayed, err := intake.Accept(t.Context(), want.push, want.keyed)
		require.NoError(t, err, name)
		require.False(t, replayed, name)
		task, err := inspector.GetTaskInfo(want.queue, want.push.ID)
		require.NoError(t, err, name)
		require.Equal(t, want.state, task.State, name)
		require.Equal(t, "push:swrve", task.Type, name)
		require.Equal(t, 1_000_000, task.MaxRetry, name)
		require.Equal(t, 10*time.Minute, task.Timeout, name)
		require.Equal(t, time.Hour, task.Retention, name)
		require.True(t, task.Deadline.IsZero(), name)
		push, err := DecodePush(task.ID, task.Payload)
		require.NoError(t, err, name)
		require.Equal(t, want.push, push, name)
	}
}

func TestAPushIsNeverDueEarly(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	intake, inspector := openIntake(t, server.URL()), openInspector(t, server)
	rapid.Check(t, func(check *rapid.T) {
		wait := rapid.Int64Range(5_000, 366*24*3600*1000).Draw(check, "milliseconds")
		push := newWindowedPush(time.Now().Add(time.Duration(wait) * time.Millisecond))
		_, err := intake.Accept(t.Context(), push, false)
		require.NoError(check, err)
		task, err := inspector.GetTaskInfo(Swrve.WindowQueue(), push.ID)
		require.NoError(check, err)
		due := push.DueAt.Time()
		require.False(check, task.NextProcessAt.Before(due))
		require.Less(check, task.NextProcessAt.Sub(due), time.Second)
		require.True(check, task.NextProcessAt.Equal(scheduler.CeilSecond(due)))
	})
}

// enqueueHash names the enqueue script on the wire, when Redis knows it.
func enqueueHash(t *testing.T, server *testenv.Redis) string {
	_, err := NewIntake(server.Client(t), Swrve, testRetention).Accept(t.Context(), newPush(), false)
	require.NoError(t, err)
	return enqueueScript.Hash()
}

// A client that repeats commands meets its own first try.
func TestARepeatedEnqueueIsNoConflict(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	hash, inspector := enqueueHash(t, server), openInspector(t, server)
	proxy := testenv.NewProxy(t, server.Addr())
	client := redis.NewClient(&redis.Options{Addr: proxy.Addr()})
	t.Cleanup(func() { _ = client.Close() })
	before := countTasks(t, inspector)

	proxy.CutReplyTo(hash, 1)
	replayed, err := NewIntake(client, Swrve, testRetention).Accept(t.Context(), newPush(), false)
	require.NoError(t, err)
	require.False(t, replayed)
	require.Equal(t, 1, proxy.Cut())
	require.Equal(t, before+1, countTasks(t, inspector))
}

// The service's client does not repeat: whether the push is stored is unknown,
// and the caller who repeats it, with the same id, ends up with one.
func TestALostReplyIsAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	hash, inspector := enqueueHash(t, server), openInspector(t, server)
	proxy := testenv.NewProxy(t, server.Addr())
	intake := openIntake(t, proxy.URL())
	before := countTasks(t, inspector)
	for _, keyed := range []bool{false, true} {
		push := newPush()
		proxy.CutReplyTo(hash, 1)
		_, err := intake.Accept(t.Context(), push, keyed)
		require.ErrorIs(t, err, ErrOutcomeUnknown)
		require.NotErrorIs(t, err, ErrNotStored)

		replayed, err := intake.Accept(t.Context(), push, keyed)
		require.NoError(t, err)
		require.Equal(t, keyed, replayed)
	}
	require.Equal(t, 2, proxy.Cut())
	require.Equal(t, before+2, countTasks(t, inspector))
}

func TestAStoppedRedisStoresNothing(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	intake := openIntake(t, server.URL())
	server.Stop()
	for _, keyed := range []bool{false, true} {
		_, err := intake.Accept(t.Context(), newPush(), keyed)
		require.ErrorIs(t, err, ErrNotStored)
		require.NotErrorIs(t, err, ErrOutcomeUnknown)
	}
	server.Start()
	requireAcceptsAgain(t, intake)
}

// A connection that Redis closed while it was idle must not cost a push its
// certainty for longer than the pool needs to notice.
func TestARestartedRedisIsUsedAgain(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	intake := openIntake(t, server.URL())
	_, err := intake.Accept(t.Context(), newPush(), false)
	require.NoError(t, err)
	server.Stop()
	_, err = intake.Accept(t.Context(), newPush(), false)
	require.Error(t, err)
	server.Start()
	requireAcceptsAgain(t, intake)
}

func requireAcceptsAgain(t *testing.T, intake *Intake) {
	testenv.EventuallyNoError(t, 10*time.Second, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := intake.Accept(ctx, newPush(), false)
		return err
	})
}

func TestAFrozenRedisLeavesTheOutcomeUnknown(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	intake, inspector := openIntake(t, server.URL()), openInspector(t, server)
	_, err := intake.Accept(t.Context(), newPush(), false)
	require.NoError(t, err)

	server.Freeze()
	for _, keyed := range []bool{false, true} {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		_, err = intake.Accept(ctx, newPush(), keyed)
		cancel()
		require.ErrorIs(t, err, ErrOutcomeUnknown)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
	// Without a deadline of the caller the client's own timeout ends the wait.
	_, err = intake.Accept(t.Context(), newPush(), false)
	require.ErrorIs(t, err, ErrOutcomeUnknown)
	intake.calls.running.Wait()

	server.Thaw()
	requireAcceptsAgain(t, intake)
	require.GreaterOrEqual(t, countTasks(t, inspector), 2)
}

func TestARedisThatRefusesToWriteStoresNothing(t *testing.T) {
	t.Parallel()
	for name, arguments := range map[string][]string{
		"full":             {"--maxmemory", "1kb"},
		"a replica":        {"--replicaof", strings.ReplaceAll(testenv.FreeAddress(t), ":", " ")},
		"too few replicas": {"--min-replicas-to-write", "1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			intake := openIntake(t, testenv.StartRedis(t, arguments...).URL())
			for _, keyed := range []bool{false, true} {
				_, err := intake.Accept(t.Context(), newPush(), keyed)
				require.ErrorIs(t, err, ErrNotStored)
				require.NotErrorIs(t, err, ErrOutcomeUnknown)
			}
		})
	}
}

func TestOneKeyIsAcceptedOnce(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	intake, inspector := openIntake(t, server.URL()), openInspector(t, server)
	push := newPush()
	push.ID = KeyedID("caller", "key")
	var callers sync.WaitGroup
	var first, failed atomic.Int64
	for range 50 {
		callers.Go(func() {
			switch replayed, err := intake.Accept(t.Context(), push, true); {
			case err != nil:
				failed.Add(1)
			case !replayed:
				first.Add(1)
			}
		})
	}
	callers.Wait()
	require.Zero(t, failed.Load())
	require.EqualValues(t, 1, first.Load())
	require.Equal(t, 1, countTasks(t, inspector))
}

func TestOneKeyWithOtherContentIsRefused(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	intake, inspector := openIntake(t, server.URL()), openInspector(t, server)
	push := newPush()
	_, err := intake.Accept(t.Context(), push, true)
	require.NoError(t, err)

	for field, change := range map[string]func(*Push){
		"platform":            func(p *Push) { p.Platform = Android },
		"messagePrototypeKey": func(p *Push) { p.MessagePrototypeKey += "!" },
		"pushKey":             func(p *Push) { p.PushKey += "!" },
		"message":             func(p *Push) { p.Message += "!" },
		"cronExpression":      func(p *Push) { p.CronExpression = "* * 9-17 * * ?" },
		"timeZone":            func(p *Push) { p.TimeZone = "UTC" },
		"a moved border":      func(p *Push) { p.PushKey, p.Message = p.PushKey+p.Message[:1], p.Message[1:] },
	} {
		other := push
		change(&other)
		replayed, err := intake.Accept(t.Context(), other, true)
		require.ErrorIs(t, err, ErrContentDiffers, field)
		require.False(t, replayed, field)
	}

	// When it comes and what its window makes of it is not the caller's content.
	later := push
	later.CreatedAt += 60_000
	later.DueAt, later.Held = later.CreatedAt, true
	replayed, err := intake.Accept(t.Context(), later, true)
	require.NoError(t, err)
	require.True(t, replayed)
	require.Equal(t, 1, countTasks(t, inspector))
}

func TestAClaimWhoseOwnerDiedIsMadeGood(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	intake, inspector := openIntake(t, server.URL()), openInspector(t, server)
	push := newPush()
	require.Equal(t, "NEW", claim(t, server.Client(t), push))

	replayed, err := intake.Accept(t.Context(), push, true)
	require.NoError(t, err)
	require.False(t, replayed, "this call stored it")
	_, err = inspector.GetTaskInfo(Swrve.ImmediateQueue(), push.ID)
	require.NoError(t, err)
}

// A caller that has gone does not stop the call that it began, neither with the
// service's client nor with a plain one, which obeys contexts; but no other one
// follows: its push is not stored behind its back, only when it comes again.
func TestAcceptReturnsWithItsCaller(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	proxy := testenv.NewProxy(t, server.Addr())
	plain := redis.NewClient(&redis.Options{Addr: proxy.Addr()})
	t.Cleanup(func() { _ = plain.Close() })
	inspector := openInspector(t, server)
	proxy.SetLatency(100 * time.Millisecond)
	stored := 0
	for name, intake := range map[string]*Intake{
		"pipeline": openIntake(t, proxy.URL()),
		"plain":    NewIntake(plain, Swrve, testRetention),
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		push := newPush()
		_, err := intake.Accept(ctx, push, true)
		cancel()
		require.ErrorIs(t, err, ErrOutcomeUnknown, name)

		intake.calls.running.Wait()
		claim, err := intake.Claim(t.Context(), push)
		require.NoError(t, err, name)
		require.Equal(t, ClaimOpen, claim, name)
		require.Equal(t, stored, countTasks(t, inspector), name)

		replayed, err := intake.Accept(t.Context(), push, true)
		require.NoError(t, err, name)
		require.False(t, replayed, name)
		stored++
		require.Equal(t, stored, countTasks(t, inspector), name)
	}
}

// Options of asynq that would lose pushes or hold them up for ever: leaked
// locks, tasks that no list shows, and tasks that cannot be run again.
func TestNoDangerousOptionIsUsed(t *testing.T) {
	t.Parallel()
	files := 0
	require.NoError(t, filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("read %s: %w", path, err)
		}
		files++
		for _, option := range []string{"asynq.Unique(", "asynq.Group(", "asynq.Deadline("} {
			require.NotContains(t, string(source), option, path)
		}
		return nil
	}))
	require.Greater(t, files, 20)
}

func TestAClosedIntakeTakesNothing(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	intake, inspector := openIntake(t, server.URL()), openInspector(t, server)
	_, err := intake.Accept(t.Context(), newPush(), false)
	require.NoError(t, err)
	intake.Close()
	for _, keyed := range []bool{false, true} {
		_, err := intake.Accept(t.Context(), newPush(), keyed)
		require.ErrorIs(t, err, ErrNotStored)
	}
	require.Equal(t, 1, countTasks(t, inspector))
}
