package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/testenv"
	"pushq/tasks"
)

func TestMetricsOfNotifications(t *testing.T) {
	t.Parallel()
	w := newFCMWorld(t)
	rabbit, database := testenv.StartRabbitMQ(t), testenv.StartPostgres(t)
	serve := w.serve("RABBITMQ_URL="+rabbit.URL(), "HISTORY_POSTGRESURL="+database.URL(), "TEMPLATE_FRESH=1h")
	rabbit.Publish(t, messagesQueue,
		notificationBody("device-1"), notificationBody("device-2"), notificationBody("device-3"),
		notificationBody("UNREGISTERED-1"), notificationBody("THIRD_PARTY_AUTH_ERROR-1"),
		notificationBody("no-template", "welcome_notification", "notfound-welcome"),
		notificationBody("device-4", `"Ada"`, "[]"), "hello",
	)
	testenv.Eventually(t, time.Minute, "the messages to be taken", func() bool {
		taken := 0.0
		for _, count := range scrape(t, serve).Family("pushq_rabbitmq_messages_total") {
			taken += count
		}
		return taken == 8
	})
	rabbit.Publish(t, messagesQueue, notificationBody("device-1"))
	id, _ := notify(t, serve, notificationBody("device-5"))
	waitFor(t, serve, id, tasks.Sent, 20*time.Second)
	var got testenv.Scrape
	testenv.EventuallyNoError(t, time.Minute, func() error {
		got = scrape(t, serve)
		for name, want := range map[string]float64{
			`pushq_rabbitmq_messages_total{result="replayed"}`:        1,
			`pushq_rabbitmq_failures_published_total`:                 3,
			`pushq_history_records_total{result="written"}`:           7,
			`pushq_pushes_finished_total{channel="fcm",state="SENT"}`: 4,
		} {
			if got.Series[name] != want {
				return fmt.Errorf("%s is %v", name, got.Series[name])
			}
		}
		// What is written is taken out of the stream after that.
		if waiting := got.Family("pushq_follow_backlog"); len(waiting) > 0 {
			return fmt.Errorf("pushq_follow_backlog: %v", waiting)
		}
		return nil
	})
	for name, want := range map[string]map[string]float64{
		"pushq_received_total":            {`kind="immediate"`: 7},
		"pushq_replayed_total":            {"": 1},
		"pushq_receiving_seconds_count":   {"": 1},
		"pushq_rabbitmq_messages_total":   {`result="stored"`: 6, `result="replayed"`: 1, `result="refused"`: 2},
		"pushq_rabbitmq_connected":        {"": 1},
		"pushq_rabbitmq_reconnects_total": {},
		"pushq_pushes_finished_total":     {`channel="fcm",state="SENT"`: 4, `channel="fcm",state="FAILED"`: 3},
		"pushq_attempts_total":            {`channel="fcm",outcome="ok"`: 4, `channel="fcm",outcome="fail"`: 3},
		"pushq_attempt_errors_total": {
			`channel="fcm",final="true",type="FCM"`: 2, `channel="fcm",final="true",type="TEMPLATE"`: 1,
		},
		"pushq_dropped_tokens_total":              {`channel="fcm"`: 1},
		"pushq_alarms_total":                      {`channel="fcm"`: 1},
		"pushq_template_requests_total":           {`outcome="ok"`: 1, `outcome="not_found"`: 1},
		"pushq_access_token_fetches_total":        {`outcome="ok"`: 1},
		"pushq_breaker_state":                     {`service="fcm",state="closed"`: 1, `service="template_service",state="closed"`: 1},
		"pushq_breaker_opens_total":               {},
		"pushq_history_connected":                 {"": 1},
		"pushq_history_failed_transactions_total": {},
		"pushq_admission_refusing":                {},
		"pushq_scrape_errors_total":               {},
		"pushq_store_errors_total":                {},
	} {
		require.Equal(t, want, got.Family(name), name)
	}
	lookups := got.Family("pushq_template_lookups_total")
	require.Equal(t, 7.0, lookups[`result="hit"`]+lookups[`result="miss"`])
	require.GreaterOrEqual(t, lookups[`result="miss"`], 2.0)
	for _, follower := range []string{
		`channel="swrve",follower="history"`, `channel="fcm",follower="history"`, `channel="fcm",follower="failed"`, `channel="fcm",follower="idempotency"`,
	} {
		require.Contains(t, got.Series, "pushq_follow_backlog{"+follower+"}")
		require.Contains(t, got.Series, "pushq_follow_oldest_seconds{"+follower+"}")
	}
	require.NotContains(t, got.Series, `pushq_follow_backlog{channel="swrve",follower="failed"}`)
}

// What RabbitMQ and PostgreSQL have not been told yet is seen, and how old it is.
func TestBacklogsAreSeen(t *testing.T) {
	t.Parallel()
	w := newFCMWorld(t)
	nowhere := testenv.FreeAddress(t)
	serve := w.serve("RABBITMQ_URL=amqp://guest:guest@"+nowhere+"/", "HISTORY_POSTGRESURL=postgres://test@"+nowhere+"/postgres")
	for number := range 3 {
		id, _ := notify(t, serve, notificationBody(fmt.Sprintf("UNREGISTERED-%d", number)))
		waitFor(t, serve, id, tasks.Failed, 20*time.Second)
	}
	ended := time.Now()
	testenv.Eventually(t, 20*time.Second, "two seconds", func() bool { return time.Since(ended) > 2*time.Second })
	var got testenv.Scrape
	testenv.Eventually(t, 20*time.Second, "the backlogs", func() bool {
		got = scrape(t, serve)
		return got.Series[`pushq_follow_backlog{channel="fcm",follower="idempotency"}`] == 0 && got.Series["pushq_history_failed_transactions_total"] > 0
	})
	for _, follower := range []string{"history", "failed"} {
		labels := fmt.Sprintf(`{channel="fcm",follower=%q}`, follower)
		require.Equal(t, 3.0, got.Series["pushq_follow_backlog"+labels])
		require.GreaterOrEqual(t, got.Series["pushq_follow_oldest_seconds"+labels], 2.0)
		require.Less(t, got.Series["pushq_follow_oldest_seconds"+labels], 60.0)
	}
	require.Zero(t, got.Series["pushq_rabbitmq_connected"])
	require.Zero(t, got.Series["pushq_rabbitmq_failures_published_total"])
}

// A process without the channel asks Redis for nothing more, and tells nothing of it.
func TestMetricsWithoutTheChannel(t *testing.T) {
	t.Parallel()
	w := newFCMWorld(t)
	serve := w.startReady("serve")
	text := scrape(t, serve).Text
	for _, name := range []string{"pushq_breaker_state", "pushq_follow_", "pushq_rabbitmq_connected", "pushq_history_", `channel="fcm"`} {
		require.NotContains(t, text, name)
	}
}
