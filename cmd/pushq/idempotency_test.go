package main

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/swrvesim"
	"pushq/internal/testenv"
	"pushq/tasks"
)

func TestOneSendPerIdempotencyKey(t *testing.T) {
	t.Parallel()
	const callers = 50
	w := newWorld(t, swrvesim.Config{})
	serve := w.startReady("serve", "PUSH_RETENTION_SENT=2s", "PUSH_RETENTION_COMPLETED=1s")
	url := serve.URL()

	var mutex sync.Mutex
	locations, fresh := make(map[string]int), 0
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			status, header, answer, err := tryPost(url, pushBody("user"), "Idempotency-Key", "once")
			mutex.Lock()
			defer mutex.Unlock()
			if err != nil || status != http.StatusAccepted {
				t.Errorf("status %d, error %v: %s", status, err, answer)
				return
			}
			locations[header.Get("Location")]++
			if header.Get("Idempotent-Replayed") != "true" {
				fresh++
			}
		})
	}
	all.Wait()
	require.Len(t, locations, 1)
	require.Equal(t, 1, fresh)
	id := ""
	for location := range locations {
		id = location[len("/push/"):]
	}

	replay := func() {
		status, header, _ := post(t, serve, pushBody("user"), "Idempotency-Key", "once")
		require.Equal(t, http.StatusAccepted, status)
		require.Equal(t, "/push/"+id, header.Get("Location"))
		require.Equal(t, "true", header.Get("Idempotent-Replayed"))
	}
	waitFor(t, serve, id, tasks.Sent, 20*time.Second)
	replay()
	testenv.Eventually(t, 60*time.Second, "task and record to be forgotten", func() bool {
		response, err := client.Get(url + "/push/" + id)
		if err != nil {
			return false
		}
		_ = response.Body.Close()
		return response.StatusCode == http.StatusNotFound
	})
	replay()

	status, _, answer := post(t, serve, pushBody("user", `"cronExpression":"* * * * * ?"`), "Idempotency-Key", "once")
	require.Equal(t, http.StatusConflict, status)
	require.Contains(t, answer, "idempotency-key-reused")

	// Whatever was enqueued twice would have been sent before this one.
	waitFor(t, serve, accept(t, serve, "last"), tasks.Sent, 20*time.Second)
	require.Equal(t, map[string]int{"user": 1, "last": 1}, w.Deliveries())
}
