package main

import (
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"pushq/internal/swrvesim"
	"pushq/internal/testenv"
	"pushq/tasks"
)

// documentedRights is the ACL line of docs/redis.md, from "pushq" on.
func documentedRights(t *testing.T) []string {
	t.Helper()
	document, err := os.ReadFile("../../docs/redis.md")
	require.NoError(t, err)
	line := regexp.MustCompile("```acl\nuser (.*)\n```").FindSubmatch(document)
	require.NotNil(t, line, "the ACL line")
	return strings.Fields(strings.Replace(string(line[1]), ">PASSWORD", ">p", 1))
}

// documentedClusterRights are those that a cluster needs besides.
func documentedClusterRights(t *testing.T) []string {
	t.Helper()
	document, err := os.ReadFile("../../docs/redis.md")
	require.NoError(t, err)
	line := regexp.MustCompile("```acl-cluster\n(.*)\n```").FindSubmatch(document)
	require.NotNil(t, line, "the ACL line for clusters")
	return strings.Fields(string(line[1]))
}

// newRestrictedWorld is a world whose Redis gives pushq those rights only.
func newRestrictedWorld(t *testing.T, rights []string) *world {
	t.Helper()
	w := newWorld(t, swrvesim.Config{}, append([]string{"--user"}, rights...)...)
	w.RedisURL = "redis://pushq:p@" + w.Redis.Addr() + "/1"
	return w
}

// denied lists what Redis has refused to pushq.
func denied(t *testing.T, client *redis.Client) []string {
	t.Helper()
	entries, err := client.ACLLog(t.Context(), 100).Result()
	require.NoError(t, err)
	var list []string
	for _, entry := range entries {
		if entry.Username == "pushq" {
			list = append(list, fmt.Sprintf("%s %s (%s)", entry.Reason, entry.Object, entry.Context))
		}
	}
	return list
}

func TestTheDocumentedRightsAreEnough(t *testing.T) {
	t.Parallel()
	rights := documentedRights(t)
	w := newRestrictedWorld(t, rights)
	serve := w.startReady("serve", "PUSH_RETENTION_COMPLETED=1s")
	call := func(arguments ...string) {
		_, err := execute(append(append([]string{"push"}, arguments...), "--server", serve.URL())...)
		require.NoError(t, err, arguments)
	}
	visit := func(method, path string) {
		response, body := visitDashboard(t, serve, method, path, "", "Content-Type", "application/json")
		require.Less(t, response.StatusCode, 300, "%s %s: %s", method, path, body)
	}

	waitFor(t, serve, accept(t, serve, "user"), tasks.Sent, 20*time.Second)
	waitFor(t, serve, accept(t, serve, "open", `"cronExpression":"* * * * * ?"`), tasks.Sent, 20*time.Second)
	for range 2 {
		status, _, _ := post(t, serve, pushBody("keyed"), "Idempotency-Key", "one")
		require.Equal(t, http.StatusAccepted, status)
	}
	retried := accept(t, serve, "503x1-user")
	waitFor(t, serve, retried, tasks.Sent, 30*time.Second)
	failed := accept(t, serve, "403x1-user")
	waitFor(t, serve, failed, tasks.Failed, 20*time.Second)
	call("retry", failed)
	waitFor(t, serve, failed, tasks.Sent, 20*time.Second)

	for _, queue := range tasks.Swrve.Queues() {
		visit(http.MethodPost, "/api/queues/"+queue+":pause")
	}
	pending, cancelled := accept(t, serve, "pending"), accept(t, serve, "cancelled")
	accept(t, serve, "scheduled", `"cronExpression":"0 0 0 1 1 ?"`)
	call("cancel", cancelled)
	call("retry", cancelled)
	archived := accept(t, serve, "403x1-old")
	for _, state := range []tasks.State{tasks.Scheduled, tasks.Pending, tasks.InMemory, tasks.Retry, tasks.Sent, tasks.Failed, tasks.GivenUp, tasks.Cancelled} {
		call("list", "--status", string(state))
	}
	for _, path := range []string{"queues", "queues/swrve", "queues/swrve/groups", "queue_stats", "servers", "scheduler_entries", "redis_info", "queues/swrve/tasks/" + pending} {
		visit(http.MethodGet, "/api/"+path)
	}
	for _, state := range []string{"active", "pending", "scheduled", "retry", "archived", "completed"} {
		visit(http.MethodGet, "/api/queues/swrve/"+state+"_tasks")
	}
	visit(http.MethodPost, "/api/queues/swrve/pending_tasks/"+pending+":archive")
	visit(http.MethodPost, "/api/queues/swrve/archived_tasks/"+pending+":run")
	visit(http.MethodPost, "/api/queues/swrve/pending_tasks:archive_all")
	visit(http.MethodPost, "/api/queues/swrve/archived_tasks:run_all")
	visit(http.MethodPost, "/api/queues/swrve-window/scheduled_tasks:archive_all")
	visit(http.MethodDelete, "/api/queues/swrve-window/archived_tasks:delete_all")
	visit(http.MethodDelete, "/api/queues/swrve/completed_tasks:delete_all")
	visit(http.MethodPost, "/api/queues/swrve/active_tasks:cancel_all")
	for _, queue := range tasks.Swrve.Queues() {
		visit(http.MethodPost, "/api/queues/"+queue+":resume")
	}
	waitFor(t, serve, pending, tasks.Sent, 20*time.Second)
	waitFor(t, serve, archived, tasks.Failed, 20*time.Second)

	// The caretaker takes what is old; a worker's end gives back what it has.
	client := redis.NewClient(&redis.Options{Addr: w.Redis.Addr(), DB: 1})
	t.Cleanup(func() { _ = client.Close() })
	testenv.Eventually(t, 20*time.Second, "the archived task to be taken", func() bool {
		key, long := "asynq:{swrve}:archived", time.Now().Add(-40*24*time.Hour)
		client.ZAddXX(t.Context(), key, redis.Z{Score: float64(long.Unix()), Member: archived})
		return client.Exists(t.Context(), "asynq:{swrve}:t:"+archived).Val() == 0
	})
	accept(t, serve, "hang-user")
	testenv.Eventually(t, 20*time.Second, "the send to be under way", func() bool { return w.Swrve.Stats().InFlight == 1 })
	visit(http.MethodGet, "/api/servers")
	other := w.startReady("worker")
	other.Terminate()
	require.Zero(t, other.Wait(30*time.Second))

	require.Empty(t, denied(t, w.Redis.Client(t)))
	require.NotContains(t, strings.Join(append(serve.Stderr(), other.Stderr()...), "\n"), "NOPERM")
	used := w.Redis.Client(t).Info(t.Context(), "commandstats").Val()
	for _, right := range rights {
		if command, found := strings.CutPrefix(right, "+"); found && !strings.Contains(used, "cmdstat_"+command+":") {
			t.Logf("not needed by this test: %s", command)
		}
	}
}

func TestTheDocumentedRightsAreEnoughInACluster(t *testing.T) {
	t.Parallel()
	for name, rights := range map[string][]string{
		"all": append(documentedRights(t), documentedClusterRights(t)...), "one server's only": documentedRights(t),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := testenv.StartCluster(t, append([]string{"--user"}, rights...)...)
			refused := func() (all []string) {
				for _, node := range cluster.Nodes() {
					all = append(all, denied(t, node.Client(t))...)
				}
				return all
			}
			w := newWorldAt(t, swrvesim.Config{}, strings.Replace(cluster.URL(), "://", "://pushq:p@", 1))
			serve := w.start("serve")
			if name != "all" {
				testenv.Eventually(t, 20*time.Second, "Redis to refuse something", func() bool { return len(refused()) > 0 })
				return
			}
			serve.WaitReady()
			waitFor(t, serve, accept(t, serve, "user"), tasks.Sent, 20*time.Second)
			waitFor(t, serve, accept(t, serve, "403x1-user"), tasks.Failed, 20*time.Second)
			for _, path := range []string{"queues", "servers", "redis_info", "queues/swrve/completed_tasks"} {
				response, body := visitDashboard(t, serve, http.MethodGet, "/api/"+path, "")
				require.Equal(t, http.StatusOK, response.StatusCode, body)
			}
			require.Empty(t, refused())
		})
	}
}

// A right too few is seen, so that the test above means something.
func TestEachKindOfRightIsNeeded(t *testing.T) {
	t.Parallel()
	for _, right := range []string{"~pushq:*", "~asynq:*", "&asynq:*", "+evalsha", "+zrevrangebyscore", "+memory|usage"} {
		t.Run(right, func(t *testing.T) {
			t.Parallel()
			rights := documentedRights(t)
			require.Contains(t, rights, right)
			rights = slices.DeleteFunc(rights, func(other string) bool { return other == right })
			w := newRestrictedWorld(t, slices.Insert(rights, 2, "resetchannels"))
			serve := w.start("serve")
			client := w.Redis.Client(t)
			testenv.Eventually(t, 30*time.Second, "Redis to refuse something", func() bool {
				post(t, serve, pushBody("user"))
				_, _ = execute("push", "list", "--status", "FAILED", "--server", serve.URL())
				visitDashboard(t, serve, http.MethodGet, "/api/queues", "")
				return len(denied(t, client)) > 0
			})
			t.Log(denied(t, client)[0])
		})
	}
}
