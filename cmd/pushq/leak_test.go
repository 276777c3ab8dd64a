package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/config"
	"pushq/internal/redisconn"
	"pushq/internal/swrvesim"
	"pushq/internal/testenv"
	"pushq/tasks"
)

// Not parallel: it counts the goroutines and file descriptors of this process,
// in which the whole service runs.
func TestThreeRoundsLeakNothing(t *testing.T) {
	const pushes, rounds = 2000, 3
	w := newWorld(t, swrvesim.Config{Latency: swrvesim.FixedLatency(20 * time.Millisecond)})
	settings := config.Default()
	settings.HTTP.Listen = "127.0.0.1:0"
	settings.Swrve.URL = w.SwrveURL
	settings.Swrve.DelayMillis = 0.5
	settings.Swrve.Concurrency = 100
	settings.Swrve.MessagePrototypePushKeys = map[string]map[string]config.Secret{"Hello": {"IOS": "key"}}

	type state struct{ goroutines, descriptors int }
	var states []state
	for range rounds {
		runRound(t, w, settings, pushes)
		client.CloseIdleConnections()
		var now state
		// What ends with a timer or a closed connection needs a moment.
		testenv.EventuallyNoError(t, 20*time.Second, func() error {
			runtime.GC()
			now = state{runtime.NumGoroutine(), openDescriptors(t)}
			if len(states) > 0 && (now.goroutines > states[0].goroutines+5 || now.descriptors != states[0].descriptors) {
				return fmt.Errorf("now %+v, after the first round %+v", now, states[0])
			}
			return nil
		})
		states = append(states, now)
	}
	t.Logf("after each round: %+v", states)
}

func runRound(t *testing.T, w *world, settings config.Config, pushes int) {
	t.Helper()
	w.Swrve.Reset()
	address := make(chan string, 1)
	service := service{
		settings: settings, roles: roles{api: true, worker: true}, redis: redisconn.Server{URL: w.Redis.URL()}, checkServer: true,
		hostClock: time.Now, log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		listening: func(listening string) { address <- listening },
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- service.run(ctx) }()
	url := "http://" + <-address
	testenv.Eventually(t, 20*time.Second, "the service to be ready", func() bool { return service.workersRunning.Load() })

	for number := range pushes {
		status, _, answer, err := tryPost(url, pushBody(fmt.Sprintf("user-%d", number)))
		require.NoError(t, err)
		require.Equal(t, http.StatusAccepted, status, answer)
	}
	testenv.Eventually(t, 60*time.Second, "all pushes to be delivered", func() bool { return w.Swrve.Stats().Answers[200] == pushes })
	waitUntilDrained(t, w)
	stop()
	require.NoError(t, <-ended)
}

func waitUntilDrained(t *testing.T, w *world) {
	t.Helper()
	client := w.Redis.Client(t)
	testenv.Eventually(t, 20*time.Second, "nothing to be active", func() bool {
		count, err := client.LLen(context.Background(), "asynq:{"+tasks.Swrve.ImmediateQueue()+"}:active").Result()
		return err == nil && count == 0
	})
	require.NoError(t, client.Close())
}

// openDescriptors counts this process' files and sockets.
func openDescriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	count := 0
	for _, entry := range entries {
		target, err := os.Readlink("/proc/self/fd/" + entry.Name())
		if err == nil && !strings.HasPrefix(target, "/proc/") { // the listing itself
			count++
		}
	}
	return count
}
