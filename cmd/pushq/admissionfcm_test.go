package main

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
	const messages = 400 // more than there is room for
	w := newFCMWorld(t, "--maxmemory", "8mb")
	rabbit, database := testenv.StartRabbitMQ(t), testenv.StartPostgres(t)
	database.Stop()
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
	bodies := make([]string, messages)
	for number := range bodies {
		bodies[number] = largeNotification(fmt.Sprintf("queued-%d", number))
	}
	rabbit.Publish(t, messagesQueue, bodies...)
	accepted := 0
	for ; accepted < 50; accepted++ {
		require.Equal(t, http.StatusAccepted, post(fmt.Sprintf("posted-%d", accepted)))
	}

	refusing := func(process *testenv.Process) bool {
		return scrape(t, process).Series["pushq_admission_refusing"] == 1
	}
	stored := func() int {
		return accepted + int(scrape(t, worker).Series[`pushq_rabbitmq_messages_total{result="stored"}`])
	}
	// The records of what was sent make room once more, until what waits for PostgreSQL
	// has taken all of it. What has been taken by then is still sent.
	before, since := 0, time.Now()
	testenv.Eventually(t, 3*time.Minute, "Redis to be full for good", func() bool {
		now := stored()
		if now != before || len(w.delivered()) != now || !refusing(worker) || !refusing(api) {
			before, since = now, time.Now()
		}
		return time.Since(since) > 5*time.Second
	})
	require.Less(t, before, messages+accepted, "it has all been taken")
	require.Positive(t, rabbit.Depth(t, messagesQueue))
	require.Equal(t, http.StatusServiceUnavailable, post("refused"))
	status, _, answer, err := tryPost(api.URL(), pushBody("refused"))
	require.NoError(t, err)
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Contains(t, answer, "store-full")
	for _, process := range []*testenv.Process{api, worker} {
		_, overall, admission := admissionHealth(t, process)
		require.Equal(t, "degraded", overall)
		require.Contains(t, admission, "of its maxmemory is used")
		process.WaitReady()
	}
	require.Positive(t, scrape(t, worker).Series[`pushq_admission_refused_total{reason="memory"}`])
	require.Positive(t, scrape(t, worker).Series[`pushq_store_errors_total{stage="receiving"}`])
	backlog := scrape(t, worker).Series[`pushq_follow_backlog{channel="fcm",follower="history"}`]
	require.EqualValues(t, before, backlog, "none was dropped")

	database.Start()
	testenv.Eventually(t, 2*time.Minute, "all messages to be delivered", func() bool { return len(w.delivered()) == messages+accepted })
	testenv.Eventually(t, time.Minute, "callers to be heard again", func() bool { return post("refused") == http.StatusAccepted })
	testenv.EventuallyNoError(t, 2*time.Minute, func() error {
		if count, _ := database.Rows(t, "audit_logs", "user_id"); count < messages+accepted+1 {
			return fmt.Errorf("%d rows in the audit log", count)
		}
		return nil
	})
	count, different := database.Rows(t, "audit_logs", "user_id")
	require.Equal(t, messages+accepted+1, count)
	require.Equal(t, messages+accepted+1, different)
	for device, times := range w.delivered() {
		require.Equal(t, 1, times, device)
	}
	require.Zero(t, rabbit.Depth(t, messagesQueue))
	t.Logf("%d of %d were taken before Redis was full", before, messages+accepted)
}
