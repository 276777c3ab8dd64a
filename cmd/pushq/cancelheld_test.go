package main

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/swrvesim"
	"pushq/tasks"
)

// A push whose worker has died may have to wait for its window before another one looks
// at it.
func TestAPushOfADeadWorkerCanBeCancelled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	api := w.startReady("api")
	client := w.Redis.Client(t)
	id := accept(t, api, "held", `"cronExpression":"0 0 0 1 1 ?"`)
	records := tasks.NewRecords(client, tasks.Swrve, tasks.Retention{Sent: time.Hour, Dead: time.Hour, Completed: time.Hour})
	_, err := records.Begin(t.Context(), tasks.Attempting{
		Push: tasks.Push{ID: id, Platform: tasks.IOS}, Token: "a", Interrupted: time.Minute, MaxAttempts: 3,
	})
	require.NoError(t, err)
	cancel := func() int {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, api.URL()+"/push/"+id, nil)
		require.NoError(t, err)
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		return response.StatusCode
	}
	require.Equal(t, http.StatusConflict, cancel(), "its worker may live")
	shown := lookUp(t, api, id).Status
	_, err = execute("push", "cancel", id, "--server", api.URL())
	require.ErrorContains(t, err, "The push is "+string(shown)+", but an earlier attempt may be under way yet", "as it is shown, with the reason")

	record, err := client.Get(t.Context(), tasks.Swrve.RecordKey(id)).Result()
	require.NoError(t, err)
	before, _, _ := strings.Cut(record, `"startedAt":`)
	require.NoError(t, client.Set(t.Context(), tasks.Swrve.RecordKey(id), before+`"startedAt":1}]}`, time.Hour).Err())
	require.Equal(t, http.StatusNoContent, cancel())
	cancelled := lookUp(t, api, id)
	require.Equal(t, tasks.Cancelled, cancelled.Status)
	require.True(t, cancelled.Attempts[0].MaybeDelivered)
}
