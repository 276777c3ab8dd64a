package main

import (
	"io"
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

func TestPostWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	for _, outage := range []struct {
		name        string
		begin, end  func(*world)
		problemType string
	}{
		{"stopped", func(w *world) { w.Redis.Stop() }, func(w *world) { w.Redis.Start() }, "urn:pushq:problem:unavailable"},
		{"frozen", func(w *world) { w.Redis.Freeze() }, func(w *world) { w.Redis.Thaw() }, "urn:pushq:problem:outcome-unknown"},
	} {
		t.Run(outage.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, swrvesim.Config{}, "--appendonly", "yes", "--appendfsync", "always")
			serve := w.startReady("serve")
			before := accept(t, serve, "before")
			waitFor(t, serve, before, tasks.Sent, 10*time.Second)

			outage.begin(w)
			for range 3 {
				posted := time.Now()
				status, header, answer := post(t, serve, pushBody("during"))
				require.Less(t, time.Since(posted), time.Minute)
				require.Equal(t, http.StatusServiceUnavailable, status)
				require.NotEmpty(t, header.Get("Retry-After"))
				require.Contains(t, answer, outage.problemType)
			}
			outage.end(w)

			serve.WaitReady()
			after := accept(t, serve, "after")
			waitFor(t, serve, after, tasks.Sent, 20*time.Second)
		})
	}
}

// Redis is away for so long that the leases of live workers run out, and the
// attempts look interrupted: the outcomes must be written before the pushes are
// handed out again.
func TestAfterALongOutageNothingIsSentTwice(t *testing.T) {
	t.Parallel()
	const pushes = 50
	w := newWorld(t, swrvesim.Config{Latency: swrvesim.FixedLatency(4 * time.Second)})
	serve := w.startReady("serve", "SWRVE_DELAYMILLIS=1")
	ids := acceptMany(t, serve, pushes, "user-")
	testenv.Eventually(t, 20*time.Second, "all sends to be in flight", func() bool { return w.Swrve.Stats().Requests == pushes })
	w.Redis.Freeze()
	frozen := time.Now()
	const lease, grace = 30 * time.Second, 5 * time.Second
	testenv.Eventually(t, time.Minute, "all leases to have run out", func() bool { return time.Since(frozen) > lease+grace+time.Second })
	w.Redis.Thaw()

	serve.WaitForLine("took pushes back", 20*time.Second)
	for _, push := range waitForAll(t, serve, ids, tasks.Sent, 30*time.Second) {
		require.Len(t, push.Attempts, 1)
		require.False(t, push.Attempts[0].MaybeDelivered)
	}
	waitUntilDone(t, w.Redis.Client(t), pushes)
	require.Equal(t, pushes, w.Swrve.Stats().Requests, "each once")
}

// waitUntilDone waits until asynq has so many completed tasks: nothing can be
// sent any more.
func waitUntilDone(t *testing.T, client *redis.Client, completed int64) {
	t.Helper()
	testenv.Eventually(t, 60*time.Second, "asynq to be done", func() bool {
		return client.ZCard(t.Context(), "asynq:{swrve}:completed").Val() == completed
	})
}

func TestServeWaitsForARedisThatComesLater(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	w.Redis.Stop()
	serve := w.start("serve")
	status, header, _ := post(t, serve, pushBody("early"))
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.NotEmpty(t, header.Get("Retry-After"))
	ready, err := client.Get(serve.URL() + "/health/ready")
	require.NoError(t, err)
	_ = ready.Body.Close()
	require.Equal(t, http.StatusServiceUnavailable, ready.StatusCode)

	w.Redis.Start()
	serve.WaitReady()
	waitFor(t, serve, accept(t, serve, "later"), tasks.Sent, 20*time.Second)
}

func TestARedisThatComesBackEmptyIsUsedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	serve := w.startReady("serve")
	waitFor(t, serve, accept(t, serve, "before"), tasks.Sent, 20*time.Second)
	w.Redis.Stop()
	w.Redis.Start()
	serve.WaitReady()
	id := accept(t, serve, "after")
	testenv.Eventually(t, 30*time.Second, "the push to be found and SENT", func() bool {
		response, err := client.Get(serve.URL() + "/push/" + id)
		if err != nil {
			return false
		}
		defer func() { _ = response.Body.Close() }()
		answer, err := io.ReadAll(response.Body)
		return err == nil && strings.Contains(string(answer), `"status":"SENT"`)
	})
}
