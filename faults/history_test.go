package faults

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"pushq/internal/fcmsim"
	"pushq/internal/testenv"
	"pushq/tasks"
)

// The database of the history is away for a while. No push waits for it, and every row is
// there afterwards, once.
func TestTheHistoryDatabaseIsStopped(t *testing.T) {
	t.Parallel()
	// Of both channels together, 200 pushes a second at full length.
	interval := length(20*time.Millisecond, 10*time.Millisecond)
	w := newFCMWorld(t, fcmsim.Config{})
	database := testenv.StartPostgres(t)
	history := "HISTORY_POSTGRESURL=" + database.URL()
	api := w.start("api", history)
	w.start("worker", history)
	users, devices := newCallers(t), newNotifiers(t)
	stopUsers, stopDevices := users.postEvery(interval, api.URL()), devices.postEvery(interval, api.URL())
	time.Sleep(2 * time.Second) // what is cold at first
	began := time.Now()
	time.Sleep(length(8*time.Second, 40*time.Second))
	stopped := time.Now()
	database.Stop()
	time.Sleep(length(10*time.Second, 2*time.Minute))
	ended := time.Now()
	database.Start()
	time.Sleep(2 * time.Second) // pushes that find everything in order again
	stopUsers()
	stopDevices()

	w.waitUntilEnded(users, api, time.Minute)
	w.waitUntilEnded(devices, api, time.Minute)
	sent, notified := w.reckon(users, api), w.reckonNotifications(devices, api)
	sent.requireSentOnce(t)
	notified.requireSentOnce(t)
	for channel, latencies := range map[string]func(from, to time.Time) []time.Duration{
		"swrve": func(from, to time.Time) []time.Duration { return w.swrveLatencies(users.accepted(), from, to) },
		"fcm":   func(from, to time.Time) []time.Duration { return w.latencies(devices.accepted(), from, to) },
	} {
		before, during := latencies(began, stopped), latencies(stopped, ended)
		p99 := percentile(during, 99)
		t.Logf("%s, from POST to provider, p50, p95, p99: %s, %s, %s before, %s, %s, %s while PostgreSQL was stopped", channel,
			percentile(before, 50), percentile(before, 95), percentile(before, 99), percentile(during, 50), percentile(during, 95), p99)
		// A few milliseconds may double for any reason; waiting would take far longer.
		require.LessOrEqual(t, p99, max(2*percentile(before, 99), length(2*time.Second, 250*time.Millisecond)))
	}
	requireInHistory(t, database, sent, notified)
}

// Redis is killed and started again while the history is written, and others are told of
// idempotency keys. With appendfsync always it loses nothing.
func TestRedisIsKilledWhileOthersFollow(t *testing.T) {
	t.Parallel()
	w := newFCMWorld(t, fcmsim.Config{Latency: 50 * time.Millisecond}, "--appendonly", "yes", "--appendfsync", "always")
	database := testenv.StartPostgres(t)
	history := "HISTORY_POSTGRESURL=" + database.URL()
	api := w.start("api", history)
	workers := []*testenv.Process{w.start("worker", history), w.start("worker", history)}
	users, devices := newCallers(t), newNotifiers(t)
	users.insistent, devices.insistent = true, true // else the history has more than they know of
	const interval = 20 * time.Millisecond
	stopUsers, stopDevices := users.postEvery(interval, api.URL()), devices.postEvery(interval, api.URL())
	for range several(2, 5) {
		time.Sleep(2 * time.Second) // the load goes on
		w.Redis.Stop()
		time.Sleep(length(500*time.Millisecond, 5*time.Second))
		w.Redis.Start()
		for _, process := range append(workers, api) {
			process.WaitReady()
		}
	}
	time.Sleep(time.Second)
	stopUsers()
	stopDevices()

	w.waitUntilEnded(users, api, recoveryTimeout)
	w.waitUntilEnded(devices, api, recoveryTimeout)
	sent, notified := w.reckon(users, api), w.reckonNotifications(devices, api)
	require.Positive(t, sent.refused, "the kill was noticed")
	sent.requireSentOnce(t)
	notified.requireSentOnce(t)
	requireInHistory(t, database, sent, notified)
	client := w.Redis.Client(t)
	for _, posting := range devices.accepted() {
		key := tasks.IdempotencyStateKey("key-" + posting.user)
		testenv.Eventually(t, 20*time.Second, key, func() bool { return client.Get(t.Context(), key).Val() == tasks.IdempotencySent })
	}
}

// A story is what the history says of a push.
type story struct {
	channel           string
	status            tasks.State
	attempts, audited int
}

func readHistory(ctx context.Context, database *testenv.Postgres) (map[string]story, error) {
	connection, err := pgx.Connect(ctx, database.URL())
	if err != nil {
		return nil, err
	}
	defer func() { _ = connection.Close(ctx) }()
	rows, err := connection.Query(ctx, `SELECT id, channel, status,
		(SELECT count(*) FROM send_attempts WHERE push_id = id), (SELECT count(*) FROM audit_logs WHERE push_id = id)
		FROM push_notifications`)
	if err != nil {
		return nil, err
	}
	stories := make(map[string]story)
	var id string
	var one story
	_, err = pgx.ForEachRow(rows, []any{&id, &one.channel, &one.status, &one.attempts, &one.audited}, func() error {
		stories[id] = one
		return nil
	})
	return stories, err
}

// requireInHistory waits until the history has every push, its attempts and, of a
// notification, its end: each once, and nothing else.
func requireInHistory(t *testing.T, database *testenv.Postgres, swrve, fcm account) {
	t.Helper()
	want := make(map[string]story)
	for id, push := range swrve.pushes {
		want[id] = story{tasks.Swrve.Name, push.Status, push.requests(), 0}
	}
	for id, push := range fcm.pushes {
		want[id] = story{tasks.FCM.Name, push.Status, push.requests(), 1}
	}
	began := time.Now()
	var found map[string]story
	testenv.EventuallyNoError(t, 2*time.Minute, func() (err error) {
		if found, err = readHistory(t.Context(), database); err != nil {
			return err
		}
		for id, wanted := range want {
			if found[id] != wanted {
				time.Sleep(200 * time.Millisecond) // each look reads all of them
				return fmt.Errorf("push %s: %+v is in the history, not %+v", id, found[id], wanted)
			}
		}
		return nil
	})
	t.Logf("%d pushes are in the history, the last of them %.1f s after the end of the load", len(want), time.Since(began).Seconds())
	require.Len(t, found, len(want))
}

// requests are the attempts that were not withdrawn before their request.
func (p push) requests() (count int) {
	for _, attempt := range p.Attempts {
		if !strings.HasPrefix(attempt.ErrorMessage, "not sent: ") {
			count++
		}
	}
	return count
}
