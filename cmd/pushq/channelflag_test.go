package main

import (
	"os"
	"path/filepath"
	"strconv"
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

// What only the device is to know begins with secret.
const notificationAnswer = `{"id":"01FCM","status":"FAILED","platform":"","messagePrototypeKey":"","pushKey":"","message":"","cronExpression":null,"timeZone":null,` +
	`"createdAt":"2026-11-27T09:00:00.000Z","nextAttemptAt":null,"attempts":[{"id":1,"status":"ERROR","startedAt":"2026-11-27T09:00:01.000Z","errorType":"FCM","errorCode":404}],` +
	`"notification":{"trace_id":"trace-1","idempotency_key":"key-1","user_id":"user-1","notification_type":"push","recipient":"secret-device",` +
	`"template_code":"welcome_<b>","variables":{"name":"secret-name"},"language":"en","metadata":{"note":"secret-note"},"other":"secret-other"}}`

func TestNotificationsAreListedWithoutTheirTexts(t *testing.T) {
	t.Parallel()
	server, asked := startPages(t, `{"items":[`+notificationAnswer+`],"next":"n"}`, `{"items":[]}`)
	output, err := execute("push", "list", "--channel", "fcm", "--status", "FAILED", "--server", server.URL)
	require.NoError(t, err)
	require.Equal(t, []string{"GET /push?channel=fcm&limit=50&status=FAILED", "GET /push?channel=fcm&cursor=n&limit=49&status=FAILED"}, *asked)
	lines := strings.Split(strings.TrimSpace(output), "\n")
	require.Equal(t, []string{"ID", "STATUS", "TEMPLATE", "USER", "CREATED", "NEXT", "ATTEMPT", "ATTEMPTS", "LAST", "ERROR"}, strings.Fields(lines[0]))
	require.Equal(t, []string{"01FCM", "FAILED", "welcome_<b>", "user-1", "2026-11-27T09:00:00.000Z", "-", "1", "FCM", "404"}, strings.Fields(lines[1]))

	server, _ = startPages(t, `{"items":[`+notificationAnswer+`]}`)
	output, err = execute("push", "list", "--channel", "fcm", "--status", "FAILED", "--json", "--server", server.URL)
	require.NoError(t, err)
	require.Equal(t, `{"id":"01FCM","status":"FAILED","createdAt":"2026-11-27T09:00:00.000Z","nextAttemptAt":null,`+
		`"attempts":[{"id":1,"status":"ERROR","startedAt":"2026-11-27T09:00:01.000Z","errorType":"FCM","errorCode":404}],`+
		`"notification":{"trace_id":"trace-1","idempotency_key":"key-1","user_id":"user-1","notification_type":"push","template_code":"welcome_<b>","language":"en"}}`+"\n", output)

	server, _ = startPages(t, notificationAnswer+"\n")
	output, err = execute("push", "get", "01FCM", "--server", server.URL)
	require.NoError(t, err)
	require.NotContains(t, output, "secret")
	require.NotContains(t, output, "pushKey")
	require.Contains(t, output, `    "template_code": "welcome_<b>",`)
	require.True(t, strings.HasSuffix(output, "\n}\n"))
}

func TestPushesOfSwrveAreShownAsTheyAre(t *testing.T) {
	t.Parallel()
	const answer = `{"id":"01SWRVE","status":"SENT","platform":"IOS","messagePrototypeKey":"Hello","pushKey":"user","message":"a\u003cb","createdAt":"2026-11-27T09:00:00.000Z","attempts":[]}`
	server, asked := startPages(t, `{"items":[`+answer+`]}`)
	output, err := execute("push", "list", "--status", "SENT", "--json", "--server", server.URL)
	require.NoError(t, err)
	require.Equal(t, answer+"\n", output)
	require.Equal(t, []string{"GET /push?limit=50&status=SENT"}, *asked)
}

func TestBulkActionsNameTheirChannel(t *testing.T) {
	t.Parallel()
	server, asked := startPages(t, `{"matched":1000,"done":1000,"next":"n"}`)
	_, err := execute("push", "retry", "--channel", "fcm", "--status", "FAILED", "--error-type", "TEMPLATE", "--server", server.URL)
	require.ErrorContains(t, err, "Go on with:\npushq push retry --channel fcm --status FAILED --error-type TEMPLATE --cursor n")
	require.Equal(t, []string{"POST /push/retry?channel=fcm", "POST /push/retry?channel=fcm"}, *asked)
	_, err = execute("push", "cancel", "01FCM", "--channel", "fcm", "--server", server.URL)
	require.ErrorContains(t, err, "name either one ID or")
}

// operateWith runs a command of the night with more settings.
func (w *world) operateWith(settings string, arguments ...string) (string, error) {
	w.t.Helper()
	path := filepath.Join(w.t.TempDir(), "pushq.yaml")
	require.NoError(w.t, os.WriteFile(path, []byte("redis:\n  url: "+w.Redis.URL()+"\n"+settings), 0o600))
	return execute(append(arguments, "--yes", "--config", path)...)
}

// withFCM are settings with which the channel fcm is there.
const withFCM = "fcm: {enabled: true, mode: legacy, serverKey: key, delayMillis: 2}\ntemplate: {url: \"http://127.0.0.1:1\"}\n"

func TestCommandsOfOneChannelLeaveTheOtherAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	paused := func() (queues []string) {
		for _, channel := range tasks.Channels() {
			names, err := tasks.PausedQueues(t.Context(), w.Redis.Client(t), channel)
			require.NoError(t, err)
			queues = append(queues, names...)
		}
		return queues
	}
	for _, step := range []struct {
		arguments []string
		says      string
		untouched bool // it says so of the other channel
		paused    []string
	}{
		{[]string{"pause"}, "queue swrve-window paused", true, []string{"swrve", "swrve-window"}},
		{[]string{"pause", "--channel", "fcm"}, "queue fcm-window paused", false, []string{"swrve", "swrve-window", "fcm", "fcm-window"}},
		{[]string{"resume"}, "queue swrve resumed", true, []string{"fcm", "fcm-window"}},
		{[]string{"resume", "--channel", "swrve"}, "queue swrve was not paused", false, []string{"fcm", "fcm-window"}},
		{[]string{"resume", "--channel", "fcm"}, "queue fcm resumed", false, nil},
		{[]string{"pace", "10", "--for", "1h"}, "configured here  250 a second (swrve.delayMillis)", true, nil},
		{[]string{"pace", "20", "--for", "1h", "--channel", "fcm"}, "configured here  500 a second (fcm.delayMillis)", false, nil},
		{[]string{"pace"}, "override         10 a second", true, nil},
		{[]string{"pace", "--reset"}, "override         none", true, nil},
		{[]string{"pace", "--channel", "fcm"}, "override         20 a second", false, nil},
	} {
		output, err := w.operateWith(withFCM, step.arguments...)
		require.NoError(t, err, step.arguments)
		require.Contains(t, output, step.says, step.arguments)
		hint := "channel fcm is untouched; to name it: pushq " + step.arguments[0] + " --channel fcm\n"
		require.Equal(t, step.untouched, strings.HasSuffix(output, hint), output)
		require.Equal(t, step.paused, paused(), step.arguments)
	}
	_, err := w.operateWith(withFCM, "pace", "600", "--for", "1h", "--channel", "fcm")
	require.ErrorContains(t, err, "600 a second is faster than fcm.delayMillis allows (500 a second)")
	for _, command := range []string{"pause", "resume", "pace"} {
		_, err := w.operateWith(withFCM, command, "--channel", "other")
		require.ErrorContains(t, err, `--channel "other": must be one of [swrve fcm]`)
	}
	output, err := w.operate("pause")
	require.NoError(t, err)
	require.NotContains(t, output, "fcm", "there is no such channel")
	output, err = w.operate("pause", "--channel", "fcm")
	require.NoError(t, err)
	require.Contains(t, output, "channel fcm is off in the configuration of this command (fcm.enabled)")
}

// addedLongAgo is an entry of a stream that nobody has dealt with for ten minutes.
func addedLongAgo(stream string) *redis.XAddArgs {
	id := strconv.FormatInt(time.Now().Add(-10*time.Minute).UnixMilli(), 10)
	return &redis.XAddArgs{Stream: stream, ID: id + "-0", Values: []string{"id", "push"}}
}

// A doctor looks at a channel that is configured here, or has been anywhere.
func TestDoctorLooksAtEveryChannelThatIsThere(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	client := w.Redis.Client(t)
	output, err := w.operate("doctor")
	require.ErrorIs(t, err, errFindings)
	require.NotContains(t, output, "fcm")
	output, err = w.operateWith(withFCM, "doctor", "--fix")
	require.ErrorIs(t, err, errFindings)
	require.Contains(t, output, "unregistered-queue in queue fcm, 1 mended\n")
	require.Contains(t, output, "unserved-queue in queue fcm-window\n")
	require.Equal(t, 1, strings.Count(output, "unserved-queue in queue swrve\n"))

	require.NoError(t, client.LPush(t.Context(), "asynq:{fcm}:pending", "ghost").Err())
	require.NoError(t, client.XAdd(t.Context(), addedLongAgo("pushq:{fcm}:follow:failed")).Err())
	require.NoError(t, client.XAdd(t.Context(), addedLongAgo("pushq:{swrve}:follow:history")).Err())
	require.NoError(t, client.XAdd(t.Context(), addedLongAgo("pushq:{fcm}:follow:idempotency:aside")).Err())
	require.NoError(t, client.SAdd(t.Context(), "asynq:queues", "former").Err())
	output, err = w.operate("doctor", "--fix") // which knows nothing of fcm
	require.ErrorIs(t, err, errFindings)
	require.Contains(t, output, "ghost in queue fcm: 1, 1 mended\n")
	require.Contains(t, output, "1 entries wait in pushq:{fcm}:follow:failed")
	require.Contains(t, output, "what to do: it needs a worker with rabbitmq.url, and that RabbitMQ")
	require.Contains(t, output, "1 entries wait in pushq:{swrve}:follow:history")
	require.Contains(t, output, "aside-stream\n  1 entries are in pushq:{fcm}:follow:idempotency:aside")
	require.Equal(t, 1, strings.Count(output, "unserved-queue in queue former\n"), "each is told once")
}

// A breaker without pushes holds nothing up, and is looked at by the next one.
func TestDoctorTellsOfBreakersThatHoldPushesUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	client := w.Redis.Client(t)
	require.NoError(t, client.HSet(t.Context(), tasks.FCM.BreakerKey(fcmService), "state", "open", "opened", 1_800_000_000_000).Err())
	require.NoError(t, client.HSet(t.Context(), tasks.FCM.BreakerKey(templateService), "state", "closed", "opened", 1_800_000_000_000).Err())
	require.NoError(t, client.SAdd(t.Context(), "asynq:queues", "fcm").Err())
	output, err := w.operateWith(withFCM, "doctor")
	require.ErrorIs(t, err, errFindings)
	require.NotContains(t, output, "breaker")

	require.NoError(t, client.LPush(t.Context(), "asynq:{fcm}:pending", "waiting").Err())
	output, _ = w.operateWith(withFCM, "doctor")
	require.Contains(t, output, "breaker\n  the circuit breaker of fcm is open, and a call failed last at 2027-01-15T08:00:00Z: 1 pushes of channel fcm wait")
	require.NotContains(t, output, "breaker of template_service")
}

// Every fault that an operator meets with notifications, with pushq's tools and asynq's.
func TestTheNightOfNotifications(t *testing.T) {
	t.Parallel()
	w := newFCMWorld(t)
	pushq := w.serve()
	call := func(arguments ...string) (string, error) {
		return execute(append(append([]string{"push"}, arguments...), "--server", pushq.URL())...)
	}
	mustCall := func(arguments ...string) string {
		t.Helper()
		output, err := call(arguments...)
		require.NoError(t, err, arguments)
		return output
	}
	_, err := w.operate("pause", "--channel", "fcm")
	require.NoError(t, err)
	_, report := readHealth(t, pushq)
	require.Equal(t, []any{"fcm", "fcm-window"}, report["checks"].(map[string]any)["queues"].(map[string]any)["paused"])

	waiting, _ := notify(t, pushq, notificationBody("device-1"))
	listed := mustCall("list", "--channel", "fcm", "--status", "PENDING")
	require.Contains(t, listed, waiting)
	require.Contains(t, listed, "welcome_notification  user-device-1")
	require.NotContains(t, mustCall("list", "--status", "PENDING"), waiting)
	_, err = call("list", "--channel", "other", "--status", "PENDING")
	require.ErrorContains(t, err, "channel must be one of [swrve fcm]")
	shown := mustCall("get", waiting)
	require.Contains(t, shown, `"user_id": "user-device-1"`)
	require.NotContains(t, shown, "Ada")
	require.NotContains(t, shown, "recipient")

	// A cancelled one that is retried has its key again.
	mustCall("cancel", waiting)
	mustCall("retry", waiting)
	again, replayed := notify(t, pushq, notificationBody("device-1"))
	require.True(t, replayed)
	require.Equal(t, waiting, again)
	mustCall("cancel", "--channel", "fcm", "--status", "PENDING")
	mustCall("retry", "--channel", "fcm", "--status", "CANCELLED")

	// asynq's tools.
	inspector := asynq.NewInspectorFromRedisClient(w.Redis.Client(t))
	require.NoError(t, inspector.ArchiveTask("fcm", waiting))
	require.Equal(t, tasks.Cancelled, lookUp(t, pushq, waiting).Status)
	response, body := visitDashboard(t, pushq, "POST", "/api/queues/fcm/archived_tasks/"+waiting+":run", "", "Content-Type", "application/json")
	require.Less(t, response.StatusCode, 300, body)
	_, body = visitDashboard(t, pushq, "GET", "/api/queues/fcm/pending_tasks", "")
	require.Contains(t, body, waiting)
	require.Contains(t, body, "welcome_notification")
	_, err = w.operate("resume", "--channel", "fcm")
	require.NoError(t, err)
	waitFor(t, pushq, waiting, tasks.Sent, 20*time.Second)
	require.Equal(t, map[string]int{"device-1": 1}, w.delivered())

	// One whose key has been given to another push is not sent any more.
	first, _ := notify(t, pushq, notificationBody("UNREGISTERED-1"))
	waitFor(t, pushq, first, tasks.Failed, 20*time.Second)
	second, replayed := notify(t, pushq, notificationBody("UNREGISTERED-1"))
	require.False(t, replayed)
	waitFor(t, pushq, second, tasks.Failed, 20*time.Second)
	_, err = call("retry", first)
	require.ErrorContains(t, err, "The idempotency key of this push stands for push "+second+" by now.")
	testenv.EventuallyNoError(t, 20*time.Second, func() error { return inspector.RunTask("fcm", first) }) // asynq may not have archived it yet
	testenv.Eventually(t, 20*time.Second, "its run to end", func() bool {
		task, err := inspector.GetTaskInfo("fcm", first)
		return err == nil && strings.Contains(task.LastErr, "stands for another push")
	})
	require.Len(t, lookUp(t, pushq, first).Attempts, 1)
	require.Equal(t, tasks.Failed, lookUp(t, pushq, first).Status)
	mustCall("retry", second)
	testenv.Eventually(t, 20*time.Second, "its second attempt", func() bool {
		push := lookUp(t, pushq, second)
		return push.Status == tasks.Failed && len(push.Attempts) == 2
	})
}
