package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/testenv"
	"pushq/tasks"
)

// readyHealth reads the health of a process, which must be ready and not unhealthy.
func readyHealth(t *testing.T, process *testenv.Process) (overall string, checks map[string]any) {
	t.Helper()
	status, report := readHealth(t, process)
	require.Equal(t, http.StatusOK, status, report)
	response, err := client.Get(process.URL() + "/health/ready")
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusOK, response.StatusCode)
	return report["status"].(string), report["checks"].(map[string]any)
}

// awaitHealth waits until a check is as it is written in JSON, but for times and errors,
// and the process is ready all the time.
func awaitHealth(t *testing.T, process *testenv.Process, check, want string) (overall string) {
	t.Helper()
	var wanted any
	require.NoError(t, json.Unmarshal([]byte(want), &wanted))
	testenv.EventuallyNoError(t, time.Minute, func() error {
		var checks map[string]any
		overall, checks = readyHealth(t, process)
		got, _ := checks[check].(map[string]any)
		if got["circuit_breaker"] == nil {
			delete(got, "response_time_ms")
		}
		delete(got, "error")
		if !equalJSON(wanted, got) {
			return fmt.Errorf("%s is %v", check, got)
		}
		return nil
	})
	return overall
}

func equalJSON(one any, other map[string]any) bool {
	return fmt.Sprint(one) == fmt.Sprint(other)
}

func TestHealthShowsTheCircuitBreakers(t *testing.T) {
	t.Parallel()
	w := newFCMWorld(t)
	settings := append(w.settings, "FCM_BREAKER_OPENFOR=2s", "FCM_RETRY_MAXATTEMPTS=100")
	processes := []*testenv.Process{w.startReady("api", settings...), w.startReady("worker", settings...)}
	const closed, open = `{"status":"healthy","circuit_breaker":"closed"}`, `{"status":"degraded","circuit_breaker":"open"}`
	for _, process := range processes {
		require.Equal(t, "healthy", awaitHealth(t, process, "fcm", closed))
		require.Equal(t, "healthy", awaitHealth(t, process, "template_service", closed))
		_, checks := readyHealth(t, process)
		require.Equal(t, checks["redis"], checks["cache_service"])
		require.NotContains(t, checks, "database")
		require.NotContains(t, checks, "message_broker")
	}

	require.NoError(t, w.firebase.SetOutcome("503-"))
	var ids []string
	for number := range 10 {
		id, _ := notify(t, processes[0], notificationBody(fmt.Sprintf("device-%d", number)))
		ids = append(ids, id)
	}
	for _, process := range processes {
		require.Equal(t, "degraded", awaitHealth(t, process, "fcm", open))
		require.Equal(t, 1.0, func() (state float64) {
			// A probe may be under way at any moment.
			testenv.Eventually(t, 20*time.Second, "the state in the metrics", func() bool {
				state = scrape(t, process).Series[`pushq_breaker_state{service="fcm",state="open"}`]
				return state == 1
			})
			return state
		}())
	}
	awaitHealth(t, processes[0], "template_service", closed)
	testenv.Eventually(t, 20*time.Second, "a second opening", func() bool {
		return scrape(t, processes[1]).Series[`pushq_breaker_opens_total{service="fcm"}`] >= 2
	})
	require.Zero(t, scrape(t, processes[0]).Series[`pushq_breaker_opens_total{service="fcm"}`], "it has opened nothing")
	printed, err := execute("health", "--details", "--server", processes[0].URL())
	require.NoError(t, err)
	require.Regexp(t, `(?m)^fcm +degraded +- +circuit breaker (open|half open)$`, printed)
	require.Regexp(t, `(?m)^cache_service +healthy +\d+ ms *$`, printed)
	require.Regexp(t, `(?m)^`+regexp.QuoteMeta(processes[0].URL())+`: degraded$`, printed)

	require.NoError(t, w.firebase.SetOutcome(""))
	waitForAll(t, processes[0], ids, tasks.Sent, time.Minute)
	for _, process := range processes {
		require.Equal(t, "healthy", awaitHealth(t, process, "fcm", closed))
	}
}

func TestHealthShowsDatabaseAndBroker(t *testing.T) {
	t.Parallel()
	w := newFCMWorld(t)
	rabbit, database := testenv.StartRabbitMQ(t), testenv.StartPostgres(t)
	settings := append(w.settings, "RABBITMQ_URL="+rabbit.URL(), "HISTORY_POSTGRESURL="+database.URL())
	worker, api := w.startReady("worker", settings...), w.startReady("api", settings...)
	const healthy, degraded = `{"status":"healthy"}`, `{"status":"degraded"}`
	for _, check := range []string{"database", "message_broker"} {
		require.Equal(t, "healthy", awaitHealth(t, worker, check, healthy))
	}
	require.Equal(t, "healthy", awaitHealth(t, api, "database", healthy))
	_, checks := readyHealth(t, api)
	require.NotContains(t, checks, "message_broker", "it does not use it")
	waiting := w.start("worker", append(settings, "REDIS_URL=redis://127.0.0.1:1")...)
	testenv.EventuallyNoError(t, 20*time.Second, func() error {
		_, report := readHealth(t, waiting)
		broker := report["checks"].(map[string]any)["message_broker"].(map[string]any)
		if text, _ := broker["error"].(string); !strings.Contains(text, "taking messages has not started yet") {
			return fmt.Errorf("message_broker is %v", broker)
		}
		return nil
	})
	waiting.WaitForLine("waiting for redis", 20*time.Second)
	waiting.Kill()

	database.Stop()
	for _, process := range []*testenv.Process{worker, api} {
		require.Equal(t, "degraded", awaitHealth(t, process, "database", degraded))
		_, checks := readyHealth(t, process)
		require.Contains(t, checks["database"].(map[string]any)["error"], "nothing can be written to postgresql: ")
	}
	require.Equal(t, "degraded", awaitHealth(t, worker, "message_broker", healthy))
	require.Zero(t, scrape(t, worker).Series["pushq_history_connected"])
	database.Start()
	require.Equal(t, "healthy", awaitHealth(t, worker, "database", healthy))
	require.Equal(t, 1.0, scrape(t, worker).Series["pushq_history_connected"])

	rabbit.Stop()
	require.Equal(t, "degraded", awaitHealth(t, worker, "message_broker", degraded))
	require.Zero(t, scrape(t, worker).Series["pushq_rabbitmq_connected"])
	rabbit.Start()
	require.Equal(t, "healthy", awaitHealth(t, worker, "message_broker", healthy))
	got := scrape(t, worker)
	require.Equal(t, 1.0, got.Series["pushq_rabbitmq_connected"])
	require.Equal(t, 1.0, got.Series["pushq_rabbitmq_reconnects_total"])
}

// Servers that take connections and say nothing take no more of anybody's time than a
// second, and of a probe's none.
func TestHealthDoesNotWaitForTheSilent(t *testing.T) {
	t.Parallel()
	w := newFCMWorld(t)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = silent.Close() })
	address := silent.Addr().String()
	worker := w.startReady("worker", append(w.settings,
		"RABBITMQ_URL=amqp://guest:canary-password@"+address+"/", "HISTORY_POSTGRESURL=postgres://test:canary-password@"+address+"/postgres?sslmode=disable")...)
	for range 3 {
		took := testenv.Fastest(10, time.Second, func() {
			response, err := client.Get(worker.URL() + "/health/ready")
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			require.Equal(t, http.StatusOK, response.StatusCode)
		})
		require.Less(t, took, time.Second)

		started := time.Now()
		status, report := readHealth(t, worker)
		require.Less(t, time.Since(started), time.Minute)
		require.Equal(t, http.StatusOK, status)
		checks := report["checks"].(map[string]any)
		for _, check := range []string{"database", "message_broker"} {
			got := checks[check].(map[string]any)
			require.Equal(t, "degraded", got["status"])
			require.NotEmpty(t, got["error"])
			require.NotContains(t, got["error"], "canary")
		}
		started = time.Now()
		require.Zero(t, scrape(t, worker).Series["pushq_history_connected"])
		require.Less(t, time.Since(started), time.Minute)
	}
}

func TestHealthCommandWithDetails(t *testing.T) {
	t.Parallel()
	w := newFCMWorld(t)
	const key = "canary-key-of-somebody"
	serve := w.serve(`HTTP_APIKEYS={"ops":"` + key + `"}`)
	_, err := execute("health", "--details", "--server", serve.URL())
	require.ErrorContains(t, err, "--key or PUSHQ_KEY")
	printed, err := execute("health", "--details", "--server", serve.URL(), "--key", key)
	require.NoError(t, err)
	require.Regexp(t, `(?m)^fcm +healthy +- +circuit breaker closed$`, printed)
	require.True(t, strings.HasSuffix(printed, ": healthy\n"), printed)

	w.Redis.Stop()
	testenv.EventuallyNoError(t, 20*time.Second, func() error {
		printed, err = execute("health", "--details", "--server", serve.URL(), "--key", key)
		if err == nil {
			return errors.New("still healthy")
		}
		return nil
	})
	require.EqualError(t, err, "not ready")
	require.Regexp(t, `(?m)^redis +unhealthy +\d+ ms +redis does not answer$`, printed)
}
