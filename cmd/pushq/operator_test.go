package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/swrvesim"
	"pushq/tasks"
)

func TestAFailedPushIsRetriedAfterTheMistakeIsMended(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	api := w.startReady("api")
	worker := w.startReady("worker", `SWRVE_MESSAGEPROTOTYPEPUSHKEYS={"Other":{"IOS":"other-key"}}`)
	call := func(arguments ...string) (string, error) {
		return execute(append(append([]string{"push"}, arguments...), "--server", api.URL())...)
	}

	id := accept(t, api, "user")
	failed := waitFor(t, api, id, tasks.Failed, 20*time.Second)
	require.Len(t, failed.Attempts, 1)
	require.Contains(t, *failed.Attempts[0].ErrorMessage, "retry the push")
	output, err := call("list", "--status", string(tasks.Failed))
	require.NoError(t, err)
	require.Contains(t, output, id)
	_, err = call("cancel", id)
	require.ErrorContains(t, err, "A push that is FAILED cannot be cancelled")
	worker.Terminate()
	require.Zero(t, worker.Wait(20*time.Second))
	w.startReady("worker")

	output, err = call("retry", id)
	require.NoError(t, err)
	require.Contains(t, output, id+" is in the queue")
	require.Len(t, waitFor(t, api, id, tasks.Sent, 20*time.Second).Attempts, 2)
	output, err = call("list", "--status", string(tasks.Failed))
	require.NoError(t, err)
	require.NotContains(t, output, id)
	require.Equal(t, map[string]int{"user": 1}, w.Deliveries())

	_, err = call("retry", id)
	require.ErrorContains(t, err, "A push that is SENT cannot be retried")
	_, err = call("retry", "01ARZ3NDEKTSV4RRFFQ69G5FAV")
	require.ErrorContains(t, err, "Not found (404)")
}

func TestAPushThatIsGivenUpGetsAllItsAttemptsAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	serve := w.startReady("serve", "PUSH_RETRY_MAXATTEMPTS=2")
	id := accept(t, serve, "503x3-user")
	require.Len(t, waitFor(t, serve, id, tasks.GivenUp, 20*time.Second).Attempts, 2)
	_, err := execute("push", "retry", id, "--server", serve.URL())
	require.NoError(t, err)
	require.Len(t, waitFor(t, serve, id, tasks.Sent, 20*time.Second).Attempts, 4)
}

func TestACancelledPushIsNotSent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	api := w.startReady("api")
	cancel := func(id string) {
		output, err := execute("push", "cancel", id, "--server", api.URL())
		require.NoError(t, err)
		require.Contains(t, output, id+" is cancelled")
		require.Equal(t, tasks.Cancelled, lookUp(t, api, id).Status)
	}
	pending := accept(t, api, "pending")
	cancel(pending)
	worker := w.startReady("worker")

	soon := time.Now().UTC().Add(20 * time.Second)
	instant := fmt.Sprintf(`"cronExpression":"%d %d %d %d %d ? %d"`,
		soon.Second(), soon.Minute(), soon.Hour(), soon.Day(), soon.Month(), soon.Year())
	scheduled := accept(t, api, "scheduled", instant)
	control := accept(t, api, "control", instant)
	_, err := execute("push", "retry", scheduled, "--server", api.URL())
	require.ErrorContains(t, err, "may not be sent before "+soon.Format("2006-01-02T15:04:05"))
	cancel(scheduled)
	waitFor(t, api, control, tasks.Sent, 20*time.Second)
	// Whatever was to be sent with the control would be on its way: the end of
	// the worker waits for it.
	worker.Terminate()
	require.Zero(t, worker.Wait(20*time.Second))
	require.Equal(t, map[string]int{"control": 1}, w.Deliveries())
	require.Equal(t, tasks.Cancelled, lookUp(t, api, scheduled).Status)

	// Only a retry takes it back.
	w.startReady("worker")
	for _, id := range []string{pending, scheduled} {
		_, err := execute("push", "retry", id, "--server", api.URL())
		require.NoError(t, err)
		waitFor(t, api, id, tasks.Sent, 20*time.Second)
	}
	require.Equal(t, map[string]int{"control": 1, "pending": 1, "scheduled": 1}, w.Deliveries())
}

// Its window is as closed after the retry as before the cancel.
func TestARetryTellsThatThePushWaitsForItsWindow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	serve := w.startReady("serve")
	due := time.Now().UTC().Add(24 * time.Hour).Truncate(time.Second)
	id := accept(t, serve, "waiting", due.Format(`"cronExpression":"5 4 15 2 1 ? 2006"`)) // second minute hour day month year
	_, err := execute("push", "cancel", id, "--server", serve.URL())
	require.NoError(t, err)
	output, err := execute("push", "retry", id, "--server", serve.URL())
	require.NoError(t, err)
	require.Equal(t, id+" waits for its window, until "+due.Format("2006-01-02T15:04:05.000Z")+"; follow it with: pushq push get "+id+"\n", output)
}
