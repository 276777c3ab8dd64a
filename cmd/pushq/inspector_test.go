package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	"pushq/internal/swrvesim"
	"pushq/internal/testenv"
	"pushq/tasks"
)

// archivedByAsynq is CANCELLED too, but can be run again with asynq's tools.
const archivedByAsynq = "archived with asynq"

// notFound is what GET says when nothing is left of a push.
const notFound = tasks.State("404")

// An operatorWorld has a push in every state that lasts, in queues that are
// paused so that they stay there.
type operatorWorld struct {
	*world
	serve     *testenv.Process
	inspector *asynq.Inspector
	ids       map[string]string // by state
	users     map[string]string // by state
}

func newOperatorWorld(t *testing.T) *operatorWorld {
	w := &operatorWorld{world: newWorld(t, swrvesim.Config{}, "--appendonly", "yes"), ids: make(map[string]string), users: make(map[string]string)}
	w.serve = w.startReady("serve", "PUSH_RETRY_MAXATTEMPTS=2", "PUSH_RETRY_DELAYINSECONDS=600")
	w.inspector = asynq.NewInspectorFromRedisClient(w.Redis.Client(t))
	add := func(state, user string, more ...string) string {
		id := accept(t, w.serve, user, more...)
		w.ids[state], w.users[state] = id, user
		return id
	}
	waitFor(t, w.serve, add("SENT", "sent"), tasks.Sent, 20*time.Second)
	waitFor(t, w.serve, add("FAILED", "400x1-failed"), tasks.Failed, 20*time.Second)
	waitFor(t, w.serve, add("RETRY", "503x1-retry"), tasks.Retry, 20*time.Second)
	waitFor(t, w.serve, add("GIVEN_UP", "503x2-given-up"), tasks.Retry, 20*time.Second)
	require.NoError(t, w.inspector.RunTask("swrve", w.ids["GIVEN_UP"]))
	waitFor(t, w.serve, w.ids["GIVEN_UP"], tasks.GivenUp, 20*time.Second)
	closed := time.Now().UTC().Add(12 * time.Hour)
	add("SCHEDULED", "scheduled", fmt.Sprintf(`"cronExpression":"* * %d * * ?"`, closed.Hour()))
	testenv.Eventually(t, 20*time.Second, "asynq to be done with the sent one", func() bool {
		task, err := w.inspector.GetTaskInfo("swrve", w.ids["SENT"])
		return err == nil && task.State == asynq.TaskStateCompleted
	})

	require.NoError(t, w.inspector.PauseQueue("swrve"))
	require.NoError(t, w.inspector.PauseQueue("swrve-window"))
	_, err := execute("push", "cancel", add("CANCELLED", "cancelled"), "--server", w.serve.URL())
	require.NoError(t, err)
	require.NoError(t, w.inspector.ArchiveTask("swrve", add(archivedByAsynq, "archived")))
	add("PENDING", "pending")
	for state := range w.ids {
		want := tasks.State(state)
		if state == archivedByAsynq {
			want = tasks.Cancelled
		}
		require.Equal(t, want, w.shown(state))
	}
	return w
}

func (w *operatorWorld) queue(state string) string {
	if state == "SCHEDULED" {
		return "swrve-window"
	}
	return "swrve"
}

// shown is what GET /push/{id} says.
func (w *operatorWorld) shown(state string) tasks.State {
	w.t.Helper()
	response, err := http.Get(w.serve.URL() + "/push/" + w.ids[state])
	require.NoError(w.t, err)
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode == http.StatusNotFound {
		return notFound
	}
	require.Equal(w.t, http.StatusOK, response.StatusCode)
	var push pushAnswer
	require.NoError(w.t, json.NewDecoder(response.Body).Decode(&push))
	return push.Status
}

// An operation is what an operator does with asynq's tools: to one task, or to
// all in a place.
type operation struct {
	one func(inspector *asynq.Inspector, queue, id string) error
	all []func(inspector *asynq.Inspector, queue string) (int, error)
}

type consequence struct {
	refused bool        // when it is done to one task
	noBulk  bool        // asynq has no such operation for all
	shown   tasks.State // while the queues are paused
	finally tasks.State // after they have been resumed
	sent    int         // requests that were delivered, in the end
}

func TestAsynqsToolsLeaveATruthfulState(t *testing.T) {
	t.Parallel()
	for name, tool := range map[string]struct {
		operation
		consequences map[string]consequence
	}{
		"run": {
			operation{
				one: (*asynq.Inspector).RunTask,
				all: []func(*asynq.Inspector, string) (int, error){
					(*asynq.Inspector).RunAllScheduledTasks, (*asynq.Inspector).RunAllRetryTasks, (*asynq.Inspector).RunAllArchivedTasks,
				},
			},
			map[string]consequence{
				"SCHEDULED":     {shown: tasks.Pending, finally: tasks.Scheduled}, // its window is closed
				"PENDING":       {shown: tasks.Pending, finally: tasks.Sent, sent: 1, refused: true, noBulk: true},
				"RETRY":         {shown: tasks.Pending, finally: tasks.Sent, sent: 1},
				"SENT":          {shown: tasks.Sent, finally: tasks.Sent, sent: 1, noBulk: true}, // never twice
				"FAILED":        {shown: tasks.Pending, finally: tasks.Sent, sent: 1},
				"GIVEN_UP":      {shown: tasks.Pending, finally: tasks.Sent, sent: 1},
				"CANCELLED":     {shown: tasks.Pending, finally: tasks.Cancelled}, // only pushq push retry takes it back
				archivedByAsynq: {shown: tasks.Pending, finally: tasks.Sent, sent: 1},
			},
		},
		"archive": {
			operation{
				one: (*asynq.Inspector).ArchiveTask,
				all: []func(*asynq.Inspector, string) (int, error){
					(*asynq.Inspector).ArchiveAllPendingTasks, (*asynq.Inspector).ArchiveAllScheduledTasks, (*asynq.Inspector).ArchiveAllRetryTasks,
				},
			},
			map[string]consequence{
				"SCHEDULED":     {shown: tasks.Cancelled, finally: tasks.Cancelled},
				"PENDING":       {shown: tasks.Cancelled, finally: tasks.Cancelled},
				"RETRY":         {shown: tasks.Cancelled, finally: tasks.Cancelled},
				"SENT":          {shown: tasks.Sent, finally: tasks.Sent, sent: 1, noBulk: true},
				"FAILED":        {shown: tasks.Failed, finally: tasks.Failed, refused: true, noBulk: true},
				"GIVEN_UP":      {shown: tasks.GivenUp, finally: tasks.GivenUp, refused: true, noBulk: true},
				"CANCELLED":     {shown: tasks.Cancelled, finally: tasks.Cancelled, refused: true, noBulk: true},
				archivedByAsynq: {shown: tasks.Cancelled, finally: tasks.Cancelled, refused: true, noBulk: true},
			},
		},
		"delete": {
			operation{
				one: (*asynq.Inspector).DeleteTask,
				all: []func(*asynq.Inspector, string) (int, error){
					(*asynq.Inspector).DeleteAllPendingTasks, (*asynq.Inspector).DeleteAllScheduledTasks, (*asynq.Inspector).DeleteAllRetryTasks,
					(*asynq.Inspector).DeleteAllArchivedTasks, (*asynq.Inspector).DeleteAllCompletedTasks,
				},
			},
			map[string]consequence{
				// Without an attempt a push is nowhere but in its task.
				"SCHEDULED":     {shown: notFound, finally: notFound},
				"PENDING":       {shown: notFound, finally: notFound},
				archivedByAsynq: {shown: notFound, finally: notFound},
				// The record remains.
				"RETRY":     {shown: tasks.Cancelled, finally: tasks.Cancelled},
				"SENT":      {shown: tasks.Sent, finally: tasks.Sent, sent: 1},
				"FAILED":    {shown: tasks.Failed, finally: tasks.Failed},
				"GIVEN_UP":  {shown: tasks.GivenUp, finally: tasks.GivenUp},
				"CANCELLED": {shown: tasks.Cancelled, finally: tasks.Cancelled},
			},
		},
	} {
		t.Run(name+" one", func(t *testing.T) {
			t.Parallel()
			w := newOperatorWorld(t)
			for state, id := range w.ids {
				err := tool.one(w.inspector, w.queue(state), id)
				if tool.consequences[state].refused {
					require.Error(t, err, state)
				} else {
					require.NoError(t, err, state)
				}
			}
			w.requireConsequences(tool.consequences)
		})
		t.Run(name+" all", func(t *testing.T) {
			t.Parallel()
			w := newOperatorWorld(t)
			done := 0
			for _, queue := range tasks.Swrve.Queues() {
				for _, all := range tool.all {
					count, err := all(w.inspector, queue)
					require.NoError(t, err)
					done += count
				}
			}
			expected := 0
			for _, one := range tool.consequences {
				if !one.noBulk {
					expected++
				}
			}
			require.Equal(t, expected, done)
			w.requireConsequences(tool.consequences)
		})
	}
}

func (w *operatorWorld) requireConsequences(consequences map[string]consequence) {
	w.t.Helper()
	require.Len(w.t, consequences, len(w.ids))
	for state, one := range consequences {
		require.Equal(w.t, one.shown, w.shown(state), "%s, while the queues are paused", state)
	}
	for _, queue := range tasks.Swrve.Queues() {
		require.NoError(w.t, w.inspector.UnpauseQueue(queue))
	}
	for state, one := range consequences {
		testenv.EventuallyNoError(w.t, 20*time.Second, func() error {
			if shown := w.shown(state); shown != one.finally {
				return fmt.Errorf("%s shows %s, and should %s", state, shown, one.finally)
			}
			return nil
		})
	}
	testenv.Eventually(w.t, 20*time.Second, "nothing to be under way", func() bool {
		for _, queue := range tasks.Swrve.Queues() {
			info, err := w.inspector.GetQueueInfo(queue)
			require.NoError(w.t, err)
			if info.Pending+info.Active > 0 {
				return false
			}
		}
		return true
	})
	deliveries := w.Deliveries()
	for state, one := range consequences {
		require.Equal(w.t, one.finally, w.shown(state), "%s, at the end", state)
		require.Equal(w.t, one.sent, deliveries[w.users[state]], state)
	}
	output, err := w.operate("doctor")
	require.NoError(w.t, err, output)
}

// What asynq's tools list and show is the push, readable.
func TestAsynqsToolsShowPushes(t *testing.T) {
	t.Parallel()
	w := newOperatorWorld(t)
	for state, list := range map[string]func(*asynq.Inspector, string, ...asynq.ListOption) ([]*asynq.TaskInfo, error){
		"PENDING": (*asynq.Inspector).ListPendingTasks, "SCHEDULED": (*asynq.Inspector).ListScheduledTasks,
		"RETRY": (*asynq.Inspector).ListRetryTasks, "SENT": (*asynq.Inspector).ListCompletedTasks,
		"FAILED": (*asynq.Inspector).ListArchivedTasks, "GIVEN_UP": (*asynq.Inspector).ListArchivedTasks,
		"CANCELLED": (*asynq.Inspector).ListArchivedTasks, archivedByAsynq: (*asynq.Inspector).ListArchivedTasks,
	} {
		listed, err := list(w.inspector, w.queue(state))
		require.NoError(t, err)
		ids := make([]string, 0, len(listed))
		for _, task := range listed {
			ids = append(ids, task.ID)
		}
		require.Contains(t, ids, w.ids[state], state)

		task, err := w.inspector.GetTaskInfo(w.queue(state), w.ids[state])
		require.NoError(t, err)
		require.Equal(t, "push:swrve", task.Type)
		var payload struct {
			PushKey string `json:"pushKey"`
			Message string `json:"message"`
		}
		require.NoError(t, json.Unmarshal(task.Payload, &payload))
		require.Equal(t, w.users[state], payload.PushKey)
		require.Equal(t, "Hello client!", payload.Message)
	}
}

// A push that a worker has in hand can only be cancelled, which for asynq means
// to be tried again; a request on the wire is finished and counts.
func TestAsynqsToolsOnAPushInMemory(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{Latency: swrvesim.FixedLatency(4 * time.Second)})
	serve := w.startReady("serve", "PUSH_RETRY_DELAYINSECONDS=1")
	inspector := asynq.NewInspectorFromRedisClient(w.Redis.Client(t))
	refused, cancelled := accept(t, serve, "refused"), accept(t, serve, "cancelled")
	testenv.Eventually(t, 20*time.Second, "both on their way", func() bool { return len(w.Swrve.Ledger()) == 2 })
	for _, operate := range []func(string, string) error{inspector.RunTask, inspector.ArchiveTask, inspector.DeleteTask} {
		require.Error(t, operate("swrve", refused))
		require.Equal(t, tasks.InMemory, lookUp(t, serve, refused).Status)
	}
	active, err := inspector.ListActiveTasks("swrve")
	require.NoError(t, err)
	require.Len(t, active, 2)

	require.NoError(t, inspector.CancelProcessing(cancelled))
	testenv.Eventually(t, 20*time.Second, "the cancel to be seen", func() bool {
		return lookUp(t, serve, cancelled).Status != tasks.InMemory
	})
	require.Contains(t, []tasks.State{tasks.Retry, tasks.Pending, tasks.Sent}, lookUp(t, serve, cancelled).Status)
	for _, id := range []string{refused, cancelled} {
		waitFor(t, serve, id, tasks.Sent, 30*time.Second)
	}
	testenv.Eventually(t, 30*time.Second, "asynq to be done with both", func() bool {
		completed, err := inspector.ListCompletedTasks("swrve")
		return err == nil && len(completed) == 2
	})
	require.Len(t, lookUp(t, serve, cancelled).Attempts, 1)
	require.Equal(t, map[string]int{"refused": 1, "cancelled": 1}, w.Deliveries())
}

// One that waits for its turn is not sent before it is tried again.
func TestAsynqsCancelOfAPushThatWaitsForItsTurn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	serve := w.startReady("serve", "PUSH_RETRY_DELAYINSECONDS=1")
	inspector := asynq.NewInspectorFromRedisClient(w.Redis.Client(t))
	_, err := w.operate("pace", "0.01", "--for", "10m")
	require.NoError(t, err)
	// Two workers would race for the only turn there is.
	waitFor(t, serve, accept(t, serve, "first"), tasks.Sent, time.Minute)
	waiting := accept(t, serve, "waiting")
	testenv.Eventually(t, time.Minute, "a worker to hold it", func() bool { return lookUp(t, serve, waiting).Status == tasks.InMemory })
	require.NoError(t, inspector.CancelProcessing(waiting))
	testenv.Eventually(t, time.Minute, "the cancel to be seen", func() bool { return lookUp(t, serve, waiting).Status != tasks.InMemory })
	require.Equal(t, tasks.Retry, lookUp(t, serve, waiting).Status)
	_, err = w.operate("pace", "--reset")
	require.NoError(t, err)
	waitFor(t, serve, waiting, tasks.Sent, time.Minute)
	require.Equal(t, map[string]int{"first": 1, "waiting": 1}, w.Deliveries())
}

// The record of a deleted push has all that is needed to send it.
func TestADeletedPushWithARecordCanBeRetried(t *testing.T) {
	t.Parallel()
	w := newOperatorWorld(t)
	require.NoError(t, w.inspector.DeleteTask("swrve", w.ids["RETRY"]))
	require.NoError(t, w.inspector.DeleteTask("swrve", w.ids["FAILED"]))
	require.NoError(t, w.inspector.UnpauseQueue("swrve"))
	for _, state := range []string{"RETRY", "FAILED"} {
		_, err := execute("push", "retry", w.ids[state], "--server", w.serve.URL())
		require.NoError(t, err)
		require.Len(t, waitFor(t, w.serve, w.ids[state], tasks.Sent, 20*time.Second).Attempts, 2)
	}
}

// With its idempotency key, a push of which nothing is left is stored anew.
func TestADeletedPushCanBePostedAgainWithItsKey(t *testing.T) {
	t.Parallel()
	w := newOperatorWorld(t)
	key := []string{"Idempotency-Key", "key"}
	_, header, _ := post(t, w.serve, pushBody("keyed"), key...)
	id := strings.TrimPrefix(header.Get("Location"), "/push/")
	require.NoError(t, w.inspector.DeleteTask("swrve", id))
	status, _, _ := post(t, w.serve, pushBody("changed"), key...)
	require.Equal(t, http.StatusConflict, status)
	status, _, _ = post(t, w.serve, pushBody("keyed"), key...)
	require.Equal(t, http.StatusAccepted, status)
	require.NoError(t, w.inspector.UnpauseQueue("swrve"))
	waitFor(t, w.serve, id, tasks.Sent, 20*time.Second)
	require.Equal(t, 1, w.Deliveries()["keyed"])
}

// What a push ended with before a retry of pushq's says nothing any more.
func TestAPushThatIsArchivedAfterARetryIsCancelled(t *testing.T) {
	t.Parallel()
	w := newOperatorWorld(t)
	_, err := execute("push", "retry", w.ids["FAILED"], "--server", w.serve.URL())
	require.NoError(t, err)
	require.Equal(t, tasks.Pending, w.shown("FAILED"))
	require.NoError(t, w.inspector.ArchiveTask("swrve", w.ids["FAILED"]))
	require.Equal(t, tasks.Cancelled, w.shown("FAILED"))
	output, err := execute("push", "list", "--status", "CANCELLED", "--server", w.serve.URL())
	require.NoError(t, err)
	require.Contains(t, output, w.ids["FAILED"])
	require.NoError(t, w.inspector.RunTask("swrve", w.ids["FAILED"]))
	require.NoError(t, w.inspector.UnpauseQueue("swrve"))
	waitFor(t, w.serve, w.ids["FAILED"], tasks.Sent, 20*time.Second)
}
