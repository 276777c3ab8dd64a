package main

import (
	"bytes"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/redisconn"
	"pushq/internal/testenv"
)

// largeNotification is a message of about 10 KB.
func largeNotification(device string) string {
	return notificationBody(device, `"metadata":{}`, `"metadata":{"campaign":"`+strings.Repeat("x", 10_000)+`"}`)
}

// What is to be written to the history waits in Redis while PostgreSQL is away. That fills
// Redis: then nothing more is taken, from callers and from RabbitMQ, nothing is dropped, and
// all goes on when PostgreSQL is back.
func TestAHistoryThatWaitsStopsTheIntakeAndLosesNothing(t *testing.T) {
	t.Parallel()
	const before, meanwhile = 200, 50
	w := newFCMWorld(t)
	rabbit, database := testenv.StartRabbitMQ(t), testenv.StartPostgres(t)
	database.Stop()
	// The history is about all that is kept of a push that was sent.
	settings := append(w.settings, "RABBITMQ_URL="+rabbit.URL(), "HISTORY_POSTGRESURL="+database.URL(),
		"PUSH_RETENTION_SENT=1s", "PUSH_RETENTION_COMPLETED=1s")
	api, worker := w.startReady("api", settings...), w.startReady("worker", settings...)
	post := func(device string) int {
		t.Helper()
		response, err := client.Post(api.URL()+"/notifications", "application/json", bytes.NewBufferString(largeNotification(device)))
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		return response.StatusCode
	}
	publish := func(name string, count int) {
		bodies := make([]string, count)
		for number := range bodies {
			bodies[number] = largeNotification(fmt.Sprintf("%s-%d", name, number))
		}
		rabbit.Publish(t, messagesQueue, bodies...)
	}
	backlog := func() float64 {
		return scrape(t, worker).Series[`pushq_follow_backlog{channel="fcm",follower="history"}`]
	}
	publish("before", before)
	testenv.Eventually(t, time.Minute, "all to be sent", func() bool { return backlog() == before })
	require.Len(t, w.delivered(), before)
	redis := w.Redis.Client(t)
	testenv.Eventually(t, 20*time.Second, "the records to be gone", func() bool {
		return len(redis.Keys(t.Context(), "pushq:{fcm}:push:*").Val()) == 0
	})
	least, since := uint64(math.MaxUint64), time.Now()
	testenv.Eventually(t, time.Minute, "buffers to be gone", func() bool {
		memory, err := redisconn.ReadMemory(t.Context(), redis)
		require.NoError(t, err)
		if memory.Used < least-least/100 {
			least, since = memory.Used, time.Now()
		}
		return time.Since(since) > 4*time.Second
	})
	require.NoError(t, redis.ConfigSet(t.Context(), "maxmemory", fmt.Sprint(least*10/9)).Err())

	for _, process := range []*testenv.Process{api, worker} {
		testenv.Eventually(t, 20*time.Second, "Redis to be full", func() bool {
			return scrape(t, process).Series["pushq_admission_refusing"] == 1
		})
		_, overall, admission := admissionHealth(t, process)
		require.Equal(t, "degraded", overall)
		require.Contains(t, admission, "of its maxmemory is used")
		process.WaitReady()
	}
	publish("meanwhile", meanwhile)
	require.Equal(t, http.StatusServiceUnavailable, post("posted"))
	requireStoreFull(t, api) // the other channel's intake
	testenv.Eventually(t, 20*time.Second, "the worker to refuse messages", func() bool {
		got := scrape(t, worker)
		return got.Series[`pushq_admission_refused_total{reason="memory"}`] >= 20 && got.Series[`pushq_store_errors_total{stage="receiving"}`] >= 20
	})
	require.Equal(t, float64(before), backlog(), "none was dropped")
	require.Len(t, w.delivered(), before, "none was taken")
	require.GreaterOrEqual(t, rabbit.Depth(t, messagesQueue), meanwhile-10, "but for those in hand")

	database.Start()
	testenv.Eventually(t, time.Minute, "the history to be written", func() bool { return backlog() == 0 })
	testenv.Eventually(t, time.Minute, "callers to be heard again", func() bool { return post("posted") == http.StatusAccepted })
	const all = before + meanwhile + 1
	testenv.EventuallyNoError(t, 2*time.Minute, func() error {
		if count, _ := database.Rows(t, "audit_logs", "user_id"); count < all {
			return fmt.Errorf("%d rows in the audit log", count)
		}
		return nil
	})
	count, different := database.Rows(t, "audit_logs", "user_id")
	require.Equal(t, all, count)
	require.Equal(t, all, different)
	require.Len(t, w.delivered(), all)
	for device, times := range w.delivered() {
		require.Equal(t, 1, times, device)
	}
	require.Zero(t, rabbit.Depth(t, messagesQueue))
}
