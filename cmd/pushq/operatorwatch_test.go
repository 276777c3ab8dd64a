package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	"pushq/internal/swrvesim"
	"pushq/internal/testenv"
	"pushq/tasks"
)

// countLines counts the lines of a process's log that have all these parts.
func countLines(process *testenv.Process, parts ...string) (count int) {
	for _, line := range process.Stderr() {
		has := true
		for _, part := range parts {
			has = has && strings.Contains(line, part)
		}
		if has {
			count++
		}
	}
	return count
}

// One that only accepts pushes tells it too, and one that starts later.
func TestEveryProcessLogsOnceWhatOperatorsChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	processes := []*testenv.Process{w.startReady("api"), w.startReady("worker")}
	told := func(parts ...string) {
		for _, process := range processes {
			testenv.Eventually(t, 30*time.Second, "the line "+strings.Join(parts, " "), func() bool {
				return countLines(process, append(parts, "msg=operator")...) > 0
			})
			require.Equal(t, 1, countLines(process, append(parts, "msg=operator")...), "once")
		}
	}
	by := fmt.Sprintf("by=%q", operatorName())
	if !strings.ContainsAny(operatorName(), " =\"") {
		by = "by=" + operatorName()
	}
	for _, step := range []struct {
		arguments []string
		says      []string
	}{
		{[]string{"pause", "--for", "1h"}, []string{"action=pause ", "channel=swrve", `queues="[swrve swrve-window]"`, "lasts=", by}},
		{[]string{"resume"}, []string{"action=resume ", "channel=swrve", by}},
		{[]string{"pace", "10", "--for", "1h"}, []string{"action=pace ", "channel=swrve", `pace="10 a second"`, by}},
		{[]string{"pace", "--reset"}, []string{`action="pace reset"`, "channel=swrve", by}},
	} {
		_, err := w.operate(step.arguments...)
		require.NoError(t, err, step.arguments)
		told(step.says...)
	}
	inspector := asynq.NewInspectorFromRedisClient(w.Redis.Client(t))
	require.NoError(t, inspector.PauseQueue("swrve"))
	told("action=pause ", "queues=[swrve]", `lasts="until pushq resume"`, `by="its time is over, or asynq's tools"`)

	later := w.startReady("api")
	require.Contains(t, later.WaitForLine("action=pause", 20*time.Second), `by="its time is over, or asynq's tools"`)
}

// Whatever somebody has done with pushq before, even a moment ago.
func TestAPauseByAsynqsToolsIsNobodys(t *testing.T) {
	t.Parallel()
	for _, before := range [][][]string{{{"pause"}, {"resume"}}, {{"pause", "--for", "1h"}, {"resume"}}, {{"resume"}}, {}} {
		w := newWorld(t, swrvesim.Config{})
		for _, arguments := range before {
			_, err := w.operate(arguments...)
			require.NoError(t, err)
		}
		client := w.Redis.Client(t)
		require.NoError(t, tasks.RegisterQueues(t.Context(), client, tasks.Swrve))
		require.NoError(t, asynq.NewInspectorFromRedisClient(client).PauseQueue("swrve"))
		_, found := w.doctor()
		require.Contains(t, found, "somebody has paused the queue: ", before)
		require.NotContains(t, found, operatorName(), before)
	}
}

func TestAPauseEndsByItselfAndSurvivesRestarts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{}, "--appendonly", "yes", "--appendfsync", "always")
	serve := w.startReady("serve")
	_, err := w.operate("pause", "--for", "1")
	require.ErrorContains(t, err, "1 of what? Write a unit: 1s, 1m, 1h or 1d")
	for _, lasts := range []string{"0s", "-5s", "999ms", "31d"} {
		_, err = w.operate("pause", "--for="+lasts)
		require.ErrorContains(t, err, "write 1s to 30d", lasts)
	}
	output, err := w.operate("pause", "--for", "2d")
	require.NoError(t, err)
	require.Contains(t, output, "queue swrve paused, and is so for another 48h0m0s: 0 ready")
	id := accept(t, serve, "user")
	paused := func() map[string]any {
		_, report := readHealth(t, serve)
		return report["checks"].(map[string]any)["queues"].(map[string]any)
	}
	until, err := time.Parse(time.RFC3339, paused()["paused_until"].(string))
	require.NoError(t, err)
	require.WithinDuration(t, time.Now().Add(48*time.Hour), until, time.Minute)
	shown, err := execute("health", "--details", "--server", serve.URL())
	require.NoError(t, err)
	require.Contains(t, shown, "swrve, swrve-window until ")
	code, found := w.doctor()
	require.Equal(t, 2, code)
	require.Contains(t, found, operatorName()+" has paused the queue at ")
	require.Contains(t, found, ", for another 4")

	serve.Terminate()
	require.Zero(t, serve.Wait(20*time.Second))
	w.Redis.Stop()
	w.Redis.Start()
	serve = w.startReady("serve")
	require.Equal(t, "paused", paused()["status"])
	output, err = w.operate("pause", "--for", "3s")
	require.NoError(t, err)
	require.Contains(t, output, "queue swrve was paused already, and is so for another 3s: 1 ready")
	waitFor(t, serve, id, tasks.Sent, 30*time.Second)
	require.Equal(t, "healthy", paused()["status"])

	output, err = w.operate("pause", "--for", "1h")
	require.NoError(t, err)
	require.Contains(t, output, "queue swrve paused, and is so")
	output, err = w.operate("pause")
	require.NoError(t, err)
	require.Contains(t, output, "queue swrve was paused already: 0 ready", "without an end from now on")
	require.NotContains(t, paused(), "paused_until")
}

// inEnvironment runs a command of the night as a process of its own, without a terminal.
func (w *world) inEnvironment(arguments []string, environment ...string) (code int, output, errors string) {
	w.t.Helper()
	process := testenv.StartPushq(w.t, arguments, w.Environment(environment...)...)
	code = process.Wait(60 * time.Second)
	return code, strings.Join(process.Stdout(), "\n"), strings.Join(process.Stderr(), "\n")
}

func TestCommandsSayWhichRedisTheyActOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	client := w.Redis.Client(t)
	secret := strings.Replace(w.Redis.URL(), "://", "://default:canary@", 1)
	named := "redis: " + strings.Replace(secret, "canary", "xxxxx", 1) + " (redis.url, PUSHQ_REDIS_URL)"
	// Set afterwards: testenv's own client has its connection already.
	require.NoError(t, client.ConfigSet(t.Context(), "requirepass", "canary").Err())

	// Nobody is there to ask: what would change an empty Redis is refused.
	for _, arguments := range [][]string{{"pause"}, {"resume"}, {"pace", "10", "--for", "1h"}, {"pace", "--reset"}, {"doctor", "--fix"}} {
		code, output, complaint := w.inEnvironment(arguments, "REDIS_URL="+secret)
		require.Equal(t, 1, code, arguments)
		require.Empty(t, output, arguments)
		require.Contains(t, complaint, named, arguments)
		require.Contains(t, complaint, "No pushq has ever used this Redis: is it the right one, and its database? Nothing has been done. If it is: --yes", arguments)
		require.NotContains(t, complaint, "canary")
	}
	w.RedisURL = secret
	require.Empty(t, client.Keys(t.Context(), "*").Val())
	const unheard = "warning: no pushq process has been heard of there"
	for _, arguments := range [][]string{{"pace"}, {"doctor"}} {
		_, _, complaint := w.inEnvironment(arguments, "PACE_FOR=1h", "REDIS_ULR=redis://elsewhere")
		require.Contains(t, complaint, named)
		require.Contains(t, complaint, unheard)
		require.Contains(t, complaint, "warning: the environment variable PUSHQ_REDIS_ULR is not known and has no effect; the nearest one is PUSHQ_REDIS_URL")
		require.Contains(t, complaint, "PUSHQ_PACE_FOR")
	}
	code, _, complaint := w.inEnvironment([]string{"pause", "--yes"})
	require.Zero(t, code, complaint)

	api := w.startReady("api") // which has no heartbeat of asynq's
	code, _, complaint = w.inEnvironment([]string{"resume"})
	require.Zero(t, code, complaint)
	require.Equal(t, named, complaint)
	api.Terminate()
	require.Zero(t, api.Wait(20*time.Second))
	code, _, complaint = w.inEnvironment([]string{"pause"})
	require.Zero(t, code, complaint)
	require.Contains(t, complaint, unheard, "it has stopped, and this Redis is in use")
}

func TestAnAnswerOfATerminalDecides(t *testing.T) {
	t.Parallel()
	for answer, well := range map[string]bool{"y\n": true, "YES\n": true, "\n": false, "n\n": false, "": false} {
		require.Equal(t, well, isYes(strings.NewReader(answer)), answer)
	}
	require.False(t, isTerminal(strings.NewReader("y")))
}

func TestCommandsExplainErrorsOfRedis(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	client := w.Redis.Client(t)
	set := func(name, value string) { require.NoError(t, client.ConfigSet(t.Context(), name, value).Err()) }
	require.NoError(t, tasks.RegisterQueues(t.Context(), client, tasks.Swrve))
	for _, trouble := range []struct {
		begin, end func()
		says       string
	}{
		{func() { set("maxmemory", "1") }, func() { set("maxmemory", "0") }, "it has no memory left (maxmemory) and takes no writes: raise maxmemory"},
		{func() { set("min-replicas-to-write", "1") }, func() { set("min-replicas-to-write", "0") }, "it has too few replicas"},
		{func() { require.NoError(t, client.ReplicaOf(t.Context(), "127.0.0.1", "1").Err()) },
			func() { require.NoError(t, client.ReplicaOf(t.Context(), "no", "one").Err()) }, "it is a replica, which takes no writes: name its master"},
		{func() { set("requirepass", "other") }, func() {}, "it wants a password: set the password that redis.url lacks"},
	} {
		trouble.begin()
		for _, arguments := range [][]string{{"pause"}, {"resume"}, {"pace", "10", "--for", "1h"}, {"pace", "--reset"}} {
			_, err := w.operate(arguments...)
			require.ErrorContains(t, err, trouble.says, arguments)
		}
		trouble.end()
	}
}
