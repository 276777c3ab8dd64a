package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"pushq/internal/swrvesim"
	"pushq/internal/testenv"
	"pushq/tasks"
)

// doctor runs the real command to its end.
func (w *world) doctor(arguments ...string) (code int, output string) {
	w.t.Helper()
	process := testenv.StartPushq(w.t, append([]string{"doctor"}, arguments...), w.Environment(nil...)...)
	code = process.Wait(30 * time.Second)
	return code, strings.Join(process.Stdout(), "\n")
}

// Every fault that --fix mends, in a system at work: afterwards the pushes are
// sent, once each.
func TestDoctorMendsASystemAtWork(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{}, "--appendonly", "yes")
	serve := w.startReady("serve", "PUSH_RETRY_DELAYINSECONDS=600")
	client := w.Redis.Client(t)
	ctx := t.Context()
	code, output := w.doctor()
	require.Zero(t, code, output)
	require.Equal(t, "nothing found", output)

	retry := accept(t, serve, "503x1-retry")
	waitFor(t, serve, retry, tasks.Retry, 20*time.Second)
	_, err := w.operate("pause")
	require.NoError(t, err)
	leaseless, lost, gone := accept(t, serve, "leaseless"), accept(t, serve, "lost"), accept(t, serve, "gone")
	require.NoError(t, client.LRem(ctx, "asynq:{swrve}:pending", 1, leaseless).Err())
	require.NoError(t, client.LPush(ctx, "asynq:{swrve}:active", leaseless).Err())
	require.NoError(t, client.HSet(ctx, "asynq:{swrve}:t:"+leaseless, "state", "active").Err())
	require.NoError(t, client.LRem(ctx, "asynq:{swrve}:pending", 1, lost).Err())
	require.NoError(t, client.Del(ctx, "asynq:{swrve}:t:"+gone, "asynq:{swrve}:t:"+retry).Err())

	code, output = w.doctor()
	require.Equal(t, 2, code, output)
	for _, line := range []string{
		"leaseless-active in queue swrve: 1\n", "misplaced-task in queue swrve: 1\n", "ghost in queue swrve: 1\n",
		"paused in queue swrve\n", "what to do: pushq resume", "what to do: pushq doctor --fix", "such as: " + lost, "such as: " + retry,
	} {
		require.Contains(t, output, line)
	}
	code, output = w.doctor("--fix", "--json")
	require.Equal(t, 2, code, "the queues are paused yet")
	fixed := 0
	for line := range strings.Lines(output) {
		var finding tasks.Finding
		require.NoError(t, json.Unmarshal([]byte(line), &finding), line)
		require.Equal(t, finding.Fault == "paused", finding.Left(), line)
		fixed += finding.Fixed
	}
	require.Equal(t, 4, fixed)
	_, err = w.operate("resume")
	require.NoError(t, err)
	waitForAll(t, serve, []string{leaseless, lost, retry}, tasks.Sent, 20*time.Second)
	code, output = w.doctor()
	require.Zero(t, code, output)
	require.Equal(t, map[string]int{"leaseless": 1, "lost": 1, "503x1-retry": 1}, w.Deliveries())
}

// Nothing is mended, or even found, that is only on its way.
func TestDoctorLeavesABusySystemAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{}, "--appendonly", "yes")
	serve := w.startReady("serve")
	ids := acceptMany(t, serve, 1500, "user-")
	code, output := w.doctor("--fix")
	require.Zero(t, code, output)
	waitForAll(t, serve, ids, tasks.Sent, 60*time.Second)
	for user, times := range w.Deliveries() {
		require.Equal(t, 1, times, user)
	}
	require.Len(t, w.Deliveries(), len(ids))
}

func TestDoctorOfAnUnfitRedis(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{}, "--maxmemory-policy", "allkeys-lru")
	output, err := w.operate("doctor")
	require.ErrorIs(t, err, errFindings)
	for _, text := range []string{
		"redis-unfit\n", "maxmemory-policy is allkeys-lru", "CONFIG SET maxmemory-policy noeviction",
		"unregistered-queue in queue swrve\n", "unserved-queue in queue swrve-window\n", "pushq worker --config FILE",
	} {
		require.Contains(t, output, text)
	}
	require.NoError(t, w.Redis.Client(t).ConfigSet(t.Context(), "maxmemory-policy", "noeviction").Err())
	output, err = w.operate("doctor", "--fix")
	require.ErrorIs(t, err, errFindings)
	require.Contains(t, output, "redis-warning\n  appendonly is off")
	require.Contains(t, output, "unregistered-queue in queue swrve, 1 mended\n")
	queues, err := asynq.NewInspectorFromRedisClient(w.Redis.Client(t)).Queues()
	require.NoError(t, err)
	require.ElementsMatch(t, tasks.Swrve.Queues(), queues)

	w.Redis.Stop()
	_, err = w.operate("doctor")
	require.Error(t, err)
	require.NotErrorIs(t, err, errFindings)
}

// Without a limit nothing tells when Redis is full: whoever starts pushq is told, and
// whoever looks.
func TestARedisWithoutALimitIsWarnedOf(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{}, "--maxmemory", "0", "--appendonly", "yes")
	serve := w.startReady("serve")
	serve.WaitForLine("maxmemory is not set", 20*time.Second)
	output, err := w.operate("doctor")
	require.ErrorIs(t, err, errFindings)
	require.Contains(t, output, "redis-warning\n  maxmemory is not set")
	require.Contains(t, output, "CONFIG SET maxmemory")
}

// What has been found is told also if nothing more can be looked at, each with
// its own remedy.
func TestDoctorOfARedisThatRefusesIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	require.NoError(t, w.Redis.Client(t).ConfigSet(t.Context(), "requirepass", "secret").Err())
	output, err := w.operate("doctor")
	require.ErrorContains(t, err, "NOAUTH")
	require.NotErrorIs(t, err, errFindings)
	require.Contains(t, output, "redis-unfit\n")
	require.Contains(t, output, "what to do: set the password that redis.url lacks")
	require.NotContains(t, output, "CONFIG SET")
}

func TestDoctorOfAFullRedis(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{}, "--maxmemory", "30mb", "--appendonly", "yes")
	w.startReady("serve")
	fillTo(t, w.Redis.Client(t), 0.85)
	output, err := w.operate("doctor")
	require.ErrorIs(t, err, errFindings)
	require.Contains(t, output, "redis-full\n")
	require.Contains(t, output, "what to do: raise maxmemory")
}

// Which pushes a dead worker held is told from the leases.
func TestDoctorOfDeadWorkers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{}, "--appendonly", "yes")
	w.startReady("api")
	client := w.Redis.Client(t)
	require.NoError(t, client.HSet(t.Context(), "asynq:{swrve}:t:some-id", "state", "active", "msg", "x").Err())
	require.NoError(t, client.LPush(t.Context(), "asynq:{swrve}:active", "some-id").Err())
	require.NoError(t, client.ZAdd(t.Context(), "asynq:{swrve}:lease", redis.Z{Score: 1, Member: "some-id"}).Err())
	output, err := w.operate("doctor")
	require.ErrorIs(t, err, errFindings)
	require.Contains(t, output, "expired-lease in queue swrve: 1\n")
	require.Contains(t, output, "unserved-queue in queue swrve\n")
}
