package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"pushq/internal/swrvesim"
	"pushq/internal/testenv"
	"pushq/tasks"
)

// Everything that one Redis can do, on three.
func TestACluster(t *testing.T) {
	t.Parallel()
	const pushes = 300
	cluster := testenv.StartCluster(t)
	w := newWorldAt(t, swrvesim.Config{Latency: swrvesim.FixedLatency(50 * time.Millisecond)}, cluster.URL())
	api := w.startReady("api")
	settings := []string{"SWRVE_DELAYMILLIS=10.5", "SWRVE_TIMEOUTMILLIS=10000"}
	victim := w.startReady("worker", settings...)
	hanging := accept(t, api, "hangx1-user")
	testenv.Eventually(t, 30*time.Second, "the send to be under way", func() bool { return len(w.Swrve.Ledger()) == 1 })
	victim.Kill()
	worker := w.startReady("worker", settings...)

	// At the right pace, each once.
	sent := waitForAll(t, api, acceptMany(t, api, pushes, "user-"), tasks.Sent, 60*time.Second)
	for _, push := range sent {
		require.Len(t, push.Attempts, 1)
	}
	// 95 a second, with room for this machine's own pauses.
	require.LessOrEqual(t, w.Swrve.Stats().LargestSecond, 115)

	// Idempotency keys.
	status, header, _ := post(t, api, pushBody("keyed"), "Idempotency-Key", "one")
	require.Equal(t, http.StatusAccepted, status)
	status, again, _ := post(t, api, pushBody("keyed"), "Idempotency-Key", "one")
	require.Equal(t, http.StatusAccepted, status)
	require.Equal(t, header.Get("Location"), again.Get("Location"))
	require.Equal(t, "true", again.Get("Idempotent-Replayed"))
	status, _, _ = post(t, api, pushBody("other"), "Idempotency-Key", "one")
	require.Equal(t, http.StatusConflict, status)

	// Windows, lists, cancel and retry. The windows' queue is on another node.
	call := func(arguments ...string) string {
		output, err := execute(append(append([]string{"push"}, arguments...), "--server", api.URL())...)
		require.NoError(t, err, arguments)
		return output
	}
	scheduled := accept(t, api, "scheduled", `"cronExpression":"0 0 0 1 1 ?"`)
	require.Equal(t, tasks.Scheduled, lookUp(t, api, scheduled).Status)
	require.Contains(t, call("list", "--status", "SCHEDULED"), scheduled)
	call("cancel", scheduled)
	waitFor(t, api, scheduled, tasks.Cancelled, 10*time.Second)
	require.Contains(t, call("list", "--status", "CANCELLED"), scheduled)
	open := accept(t, api, "open", `"cronExpression":"* * * * * ?"`)
	waitFor(t, api, open, tasks.Sent, 20*time.Second)

	refused := accept(t, api, "400x1-user")
	require.Len(t, waitFor(t, api, refused, tasks.Failed, 20*time.Second).Attempts, 1)
	require.Contains(t, call("list", "--status", "FAILED"), refused)
	call("retry", refused)
	require.Len(t, waitFor(t, api, refused, tasks.Sent, 20*time.Second).Attempts, 2)
	require.Contains(t, call("list", "--status", "SENT"), refused)

	// The dashboard, its actions included.
	requireWorkingPage(t, api, "")
	response, body := visitDashboard(t, api, http.MethodGet, "/api/redis_info", "")
	require.Equal(t, http.StatusOK, response.StatusCode, body)
	var info struct {
		Cluster   bool `json:"cluster"`
		Locations []struct {
			Queue string   `json:"queue"`
			Nodes []string `json:"nodes"`
		} `json:"queue_locations"`
	}
	require.NoError(t, json.Unmarshal([]byte(body), &info))
	require.True(t, info.Cluster)
	require.Len(t, info.Locations, 2)
	require.NotEqual(t, info.Locations[0].Nodes, info.Locations[1].Nodes, "the queues are on two nodes")
	failed := accept(t, api, "404x1-user")
	waitFor(t, api, failed, tasks.Failed, 20*time.Second)
	response, body = visitDashboard(t, api, http.MethodPost, "/api/queues/swrve/archived_tasks/"+failed+":run", "")
	require.Less(t, response.StatusCode, 300, body)
	waitFor(t, api, failed, tasks.Sent, 20*time.Second)

	// The caretaker takes old tasks out of the archive.
	old := accept(t, api, "404x1-old")
	waitFor(t, api, old, tasks.Failed, 20*time.Second)
	client := cluster.Client(t)
	long := float64(time.Now().Add(-40 * 24 * time.Hour).Unix())
	testenv.Eventually(t, 20*time.Second, "the archived task to be taken", func() bool {
		// It may not be archived yet when its record says FAILED.
		if client.ZScore(t.Context(), "asynq:{swrve}:archived", old).Err() == nil {
			require.NoError(t, client.ZAddXX(t.Context(), "asynq:{swrve}:archived", redis.Z{Score: long, Member: old}).Err())
			return false
		}
		return client.Exists(t.Context(), "asynq:{swrve}:t:"+old).Val() == 0
	})
	require.Equal(t, tasks.Failed, lookUp(t, api, old).Status)

	// What the killed worker had in hand is sent by another one, within a minute
	// (docs/operations.md, "When a worker dies").
	require.Len(t, waitFor(t, api, hanging, tasks.Sent, 150*time.Second).Attempts, 2)
	for user, count := range w.Deliveries() {
		require.Equal(t, 1, count, user)
	}
	for _, process := range []*testenv.Process{worker, api} {
		process.Terminate()
		require.Zero(t, process.Wait(30*time.Second))
		printed := strings.Join(process.Stderr(), "\n")
		for _, complaint := range []string{"CROSSSLOT", "MOVED", "level=ERROR"} {
			require.NotContains(t, printed, complaint)
		}
	}
}

// Notifications on a cluster, with the documented rights. Their idempotency keys and the
// copies of the breakers may be in any slot.
func TestAClusterTakesNotifications(t *testing.T) {
	t.Parallel()
	const devices = 30
	rights := append(documentedRights(t), documentedClusterRights(t)...)
	cluster, database := testenv.StartCluster(t, append([]string{"--user"}, rights...)...), testenv.StartPostgres(t)
	w := newFCMWorldIn(t, newWorldAt(t, swrvesim.Config{}, strings.Replace(cluster.URL(), "://", "://pushq:p@", 1)))
	serve := w.serve("HISTORY_POSTGRESURL="+database.URL(), "FCM_BREAKER_FAILURES=2", "FCM_BREAKER_OPENFOR=1s", "FCM_BREAKER_SUCCESSES=1")
	client := cluster.Client(t)
	expect := func(key, value string) {
		t.Helper()
		testenv.Eventually(t, 20*time.Second, key+" to be "+value, func() bool { return client.Get(t.Context(), key).Val() == value })
	}

	for number := range devices {
		device := fmt.Sprintf("device-%d", number)
		id, _ := notify(t, serve, notificationBody(device))
		waitFor(t, serve, id, tasks.Sent, 20*time.Second)
		expect("idempotency:key-"+device, tasks.IdempotencySent)
		_, replayed := notify(t, serve, notificationBody(device))
		require.True(t, replayed)
	}
	unregistered, _ := notify(t, serve, notificationBody("UNREGISTERED-1"))
	waitFor(t, serve, unregistered, tasks.Failed, 20*time.Second)
	expect("idempotency:key-UNREGISTERED-1", tasks.IdempotencyFailed)

	require.NoError(t, w.firebase.SetOutcome("503-"))
	deferred, _ := notify(t, serve, notificationBody("deferred"))
	expect("circuit:push_worker:fcm:state", "open")
	require.NoError(t, w.firebase.SetOutcome(""))
	waitFor(t, serve, deferred, tasks.Sent, 30*time.Second)
	expect("circuit:push_worker:fcm:state", "closed")

	waitFor(t, serve, accept(t, serve, "user"), tasks.Sent, 20*time.Second) // the other channel
	testenv.Eventually(t, 20*time.Second, "the history of all", func() bool {
		pushes, _ := database.Rows(t, "push_notifications", "id")
		audited, _ := database.Rows(t, "audit_logs", "push_id")
		return pushes == devices+3 && audited == devices+2
	})
	for device, count := range w.delivered() {
		require.Equal(t, 1, count, device)
	}
	require.Len(t, w.delivered(), devices+1)

	for _, node := range cluster.Nodes() {
		require.Empty(t, denied(t, node.Client(t)))
	}
	serve.Terminate()
	require.Zero(t, serve.Wait(30*time.Second))
	printed := strings.Join(serve.Stderr(), "\n")
	for _, complaint := range []string{"CROSSSLOT", "MOVED", "NOPERM", "level=ERROR"} {
		require.NotContains(t, printed, complaint)
	}
}
