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

	"pushq/internal/redisconn"
	"pushq/internal/swrvesim"
	"pushq/internal/testenv"
	"pushq/tasks"
)

// fillTo writes ballast until the share of maxmemory is used.
func fillTo(t *testing.T, client *redis.Client, share float64) {
	t.Helper()
	chunk := strings.Repeat("x", 256<<10)
	for number := 0; ; number++ {
		memory, err := redisconn.ReadMemory(t.Context(), client)
		require.NoError(t, err)
		if memory.Share() >= share {
			return
		}
		require.NoError(t, client.Set(t.Context(), fmt.Sprintf("ballast:%d", number), chunk, 0).Err())
	}
}

func dropBallast(t *testing.T, client *redis.Client) {
	t.Helper()
	keys, err := client.Keys(t.Context(), "ballast:*").Result()
	require.NoError(t, err)
	require.NoError(t, client.Del(t.Context(), keys...).Err())
}

// requireStoreFull waits until pushes are refused for want of memory.
func requireStoreFull(t *testing.T, process *testenv.Process) {
	t.Helper()
	testenv.EventuallyNoError(t, 20*time.Second, func() error {
		status, header, answer, err := tryPost(process.URL(), pushBody("until it is refused"))
		switch {
		case err != nil:
			return err
		case status != http.StatusServiceUnavailable:
			return fmt.Errorf("status %d", status)
		case header.Get("Retry-After") == "" || !strings.Contains(answer, "urn:pushq:problem:store-full"):
			return fmt.Errorf("%v %s", header, answer)
		}
		return nil
	})
}

func admissionHealth(t *testing.T, process *testenv.Process) (status int, overall, admission string) {
	t.Helper()
	response, err := http.Get(process.URL() + "/health")
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	var report struct {
		Status string `json:"status"`
		Checks map[string]struct {
			Status string `json:"status"`
			Error  string `json:"error"`
		} `json:"checks"`
	}
	require.NoError(t, json.NewDecoder(response.Body).Decode(&report))
	admitted := report.Checks["admission"]
	return response.StatusCode, report.Status, strings.TrimSpace(admitted.Status + " " + admitted.Error)
}

func TestAFullRedisDrainsAndTakesNoPushes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{}, "--maxmemory", "30mb")
	api := w.startReady("api")
	ids := acceptPlain(t, api, 40, "queued-")
	client := w.Redis.Client(t)
	fillTo(t, client, 0.85)
	requireStoreFull(t, api)

	status, overall, admission := admissionHealth(t, api)
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "degraded", overall)
	require.Contains(t, admission, "degraded")
	require.Contains(t, admission, "of its maxmemory is used")
	api.WaitReady() // a load balancer leaves callers this 503, and lookups

	scraped := scrape(t, api)
	require.Equal(t, 1.0, scraped.Series["pushq_admission_refusing"])
	require.Positive(t, scraped.Series[`pushq_admission_refused_total{reason="memory"}`])

	// A process that starts now refuses at once.
	serve := w.startReady("serve")
	code, _, answer := post(t, serve, pushBody("refused"))
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Contains(t, answer, "store-full")
	waitForAll(t, api, ids, tasks.Sent, 30*time.Second)
	requireStoreFull(t, api)

	dropBallast(t, client)
	for _, process := range []*testenv.Process{api, serve} {
		testenv.Eventually(t, 20*time.Second, "pushes to be accepted again", func() bool {
			code, _, _ := post(t, process, pushBody("after"))
			return code == http.StatusAccepted
		})
		_, overall, admission = admissionHealth(t, process)
		require.Equal(t, "healthy healthy", overall+" "+admission)
	}
	require.NotContains(t, w.Deliveries(), "refused")
}

// (A full Redis is among the faults of package faults.)
func TestNothingIsLostOrSentTwiceWithTooFewReplicas(t *testing.T) {
	t.Parallel()
	const count = 16
	w := newWorld(t, swrvesim.Config{Latency: swrvesim.FixedLatency(2 * time.Second)})
	serve := w.startReady("serve", "SWRVE_DELAYMILLIS=1", "SWRVE_CONCURRENCY=16")
	ids := acceptPlain(t, serve, count, "queued-")
	testenv.Eventually(t, 20*time.Second, "pushes to be sent", func() bool { return len(w.Swrve.Ledger()) >= count })

	client := w.Redis.Client(t)
	require.NoError(t, client.ConfigSet(t.Context(), "min-replicas-to-write", "1").Err())
	status, header, answer := post(t, serve, pushBody("refused"))
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.NotEmpty(t, header.Get("Retry-After"))
	require.Contains(t, answer, "urn:pushq:problem:unavailable")
	serve.WaitForLine("redis did not take an attempt's outcome", 20*time.Second)
	require.NoError(t, client.ConfigSet(t.Context(), "min-replicas-to-write", "0").Err())

	waitForAll(t, serve, ids, tasks.Sent, 60*time.Second)
	delivered := w.Deliveries()
	require.Len(t, delivered, count)
	for user, times := range delivered {
		require.Equal(t, 1, times, user)
	}
	testenv.Eventually(t, 20*time.Second, "pushes to be accepted again", func() bool {
		status, _, _ := post(t, serve, pushBody("after"))
		return status == http.StatusAccepted
	})
}
