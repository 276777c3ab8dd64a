package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
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

// documentedForOthers are lines of docs/deployment.md for RabbitMQ and PostgreSQL: the
// three expressions for a user of RabbitMQ, and what a role is granted that owns nothing.
func documentedForOthers(t *testing.T) (permissions []string, grants string) {
	t.Helper()
	document, err := os.ReadFile("../../docs/deployment.md")
	require.NoError(t, err)
	line := regexp.MustCompile(`(?m)^rabbitmqctl set_permissions .*pushq '(.*)' '(.*)' '(.*)'$`).FindStringSubmatch(string(document))
	require.NotNil(t, line, "the permissions at RabbitMQ")
	granted := regexp.MustCompile("(?s)```sql\n(GRANT .*?)```").FindStringSubmatch(string(document))
	require.NotNil(t, granted, "the grants at PostgreSQL")
	return line[1:], granted[1]
}

// statements runs SQL as the owner of the database.
func statements(t *testing.T, database *testenv.Postgres, text string) {
	t.Helper()
	connection, err := pgx.Connect(t.Context(), database.URL())
	require.NoError(t, err)
	defer func() { _ = connection.Close(context.WithoutCancel(t.Context())) }()
	_, err = connection.Exec(t.Context(), text)
	require.NoError(t, err)
}

// All that the channel fcm does, with no more rights than the documents give it at Redis,
// RabbitMQ and PostgreSQL.
func TestTheDocumentedRightsAreEnoughForNotifications(t *testing.T) {
	t.Parallel()
	rights := documentedRights(t)
	permissions, grants := documentedForOthers(t)
	w := newFCMWorldIn(t, newRestrictedWorld(t, rights))
	rabbit, database := testenv.StartRabbitMQ(t), testenv.StartPostgres(t)
	rabbit.Control("add_user", "pushq", "p")
	rabbit.Control(append([]string{"set_permissions", "pushq"}, permissions...)...)
	settings := []string{
		"RABBITMQ_URL=amqp://pushq:p@" + rabbit.Addr(), "PUSH_RETRY_DELAYINSECONDS=1",
		"FCM_BREAKER_FAILURES=2", "FCM_BREAKER_OPENFOR=1s", "FCM_BREAKER_SUCCESSES=1",
	}

	// The owner's first use of the database makes the tables.
	owner := w.serve("HISTORY_POSTGRESURL=" + database.URL())
	response, err := http.Get(owner.URL() + "/history")
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusOK, response.StatusCode)
	owner.Terminate()
	require.Zero(t, owner.Wait(30*time.Second))
	statements(t, database, "CREATE ROLE pushq LOGIN; "+grants)
	settings = append(settings, "HISTORY_POSTGRESURL="+strings.Replace(database.URL(), "//test@", "//pushq@", 1))

	// Every way in, and every end.
	serve := w.serve(settings...)
	waitFor(t, serve, accept(t, serve, "user"), tasks.Sent, 20*time.Second)
	posted, _ := notify(t, serve, notificationBody("posted"))
	waitFor(t, serve, posted, tasks.Sent, 20*time.Second)
	rabbit.Publish(t, messagesQueue, notificationBody("queued"), notificationBody("UNREGISTERED-1"), "hello")
	testenv.Eventually(t, 20*time.Second, "what was in the queue is delivered", func() bool { return w.delivered()["queued"] == 1 })
	testenv.Eventually(t, 20*time.Second, "what cannot be is in the queue of failures", func() bool { return rabbit.Depth(t, failuresQueue) == 2 })
	require.NoError(t, w.firebase.SetOutcome("503-"))
	refused, _ := notify(t, serve, notificationBody("refused"))
	client := redis.NewClient(&redis.Options{Addr: w.Redis.Addr(), DB: 1})
	t.Cleanup(func() { _ = client.Close() })
	testenv.Eventually(t, 20*time.Second, "the copy to say that the breaker is open", func() bool {
		return client.Get(t.Context(), "circuit:push_worker:fcm:state").Val() == "open"
	})
	require.NoError(t, w.firebase.SetOutcome(""))
	waitFor(t, serve, refused, tasks.Sent, 30*time.Second)
	for key, state := range map[string]string{"posted": "sent", "queued": "sent", "refused": "sent", "UNREGISTERED-1": "failed"} {
		testenv.Eventually(t, 20*time.Second, key+" to be "+state, func() bool {
			return client.Get(t.Context(), "idempotency:key-"+key).Val() == state
		})
	}
	testenv.Eventually(t, 20*time.Second, "the history of all", func() bool {
		pushes, _ := database.Rows(t, "push_notifications", "id")
		audited, _ := database.Rows(t, "audit_logs", "push_id")
		return pushes == 5 && audited == 4
	})
	found, err := execute("history", "search", "--user", "user-refused", "--server", serve.URL())
	require.NoError(t, err)
	require.Contains(t, found, refused)

	// A worker that stops with entries in hand leaves them to the next one.
	database.Stop()
	late, _ := notify(t, serve, notificationBody("late"))
	waitFor(t, serve, late, tasks.Sent, 20*time.Second)
	testenv.Eventually(t, 20*time.Second, "the entry to be in hand", func() bool {
		return client.XPending(t.Context(), "pushq:{fcm}:follow:history", "pushq").Val().Count == 1
	})
	serve.Terminate()
	require.Zero(t, serve.Wait(30*time.Second))
	database.Start()
	worker := w.startReady("worker", append(w.settings, settings...)...)
	testenv.Eventually(t, 30*time.Second, "its row", func() bool {
		audited, _ := database.Rows(t, "audit_logs", "push_id")
		return audited == 5
	})

	require.Empty(t, denied(t, w.Redis.Client(t)))
	printed := strings.Join(append(serve.Stderr(), worker.Stderr()...), "\n")
	for _, complaint := range []string{"NOPERM", "permission denied", "ACCESS_REFUSED", "level=ERROR"} {
		require.NotContains(t, printed, complaint)
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
	for _, right := range []string{
		"~pushq:*", "~asynq:*", "&asynq:*", "+evalsha", "+zrevrangebyscore", "+memory|usage",
		"~idempotency:*", "~circuit:*", "+hgetall", "+xadd", "+xgroup|create", "+xreadgroup",
	} {
		t.Run(right, func(t *testing.T) {
			t.Parallel()
			rights := documentedRights(t)
			require.Contains(t, rights, right)
			rights = slices.DeleteFunc(rights, func(other string) bool { return other == right })
			w := newFCMWorldIn(t, newRestrictedWorld(t, slices.Insert(rights, 2, "resetchannels")))
			serve := w.start("serve", w.settings...)
			client := w.Redis.Client(t)
			testenv.Eventually(t, 30*time.Second, "Redis to refuse something", func() bool {
				post(t, serve, pushBody("user"))
				tryNotify(t, serve, notificationBody("device"))
				_, _ = execute("push", "list", "--status", "FAILED", "--server", serve.URL())
				visitDashboard(t, serve, http.MethodGet, "/api/queues", "")
				return len(denied(t, client)) > 0
			})
			t.Log(denied(t, client)[0])
		})
	}
}
