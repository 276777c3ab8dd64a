package faults

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"pushq/internal/fcmsim"
	"pushq/internal/testenv"
	"pushq/tasks"
)

// A historyLoad is a load of both channels, whose history is written.
type historyLoad struct {
	*fcmWorld
	database       *testenv.Postgres
	api            *testenv.Process
	users, devices *callers
	stop           func()
}

func startHistoryLoad(t *testing.T, interval time.Duration, redisArguments ...string) *historyLoad {
	t.Helper()
	l := &historyLoad{fcmWorld: newFCMWorld(t, fcmsim.Config{}, redisArguments...), database: testenv.StartPostgres(t)}
	history := "HISTORY_POSTGRESURL=" + l.database.URL()
	l.api = l.start("api", history)
	l.start("worker", history)
	l.users, l.devices = newCallers(t), newNotifiers(t)
	l.users.insistent, l.devices.insistent = true, true // else the history has more than they know of
	stopUsers, stopDevices := l.users.postEvery(interval, l.api.URL()), l.devices.postEvery(interval, l.api.URL())
	l.stop = func() {
		stopUsers()
		stopDevices()
	}
	return l
}

// reckonAll wants everything to have been sent once, and to be in the history once.
func (l *historyLoad) reckonAll() {
	l.t.Helper()
	l.waitUntilEnded(l.users, l.api, recoveryTimeout)
	l.waitUntilEnded(l.devices, l.api, recoveryTimeout)
	sent, notified := l.reckon(l.users, l.api), l.reckonNotifications(l.devices, l.api)
	sent.requireSentOnce(l.t)
	notified.requireSentOnce(l.t)
	requireInHistory(l.t, l.database, sent, notified)
}

// The database of the history is away for a while. No push waits for it, which the
// same load before shows, and every row is there afterwards, once.
func TestTheHistoryDatabaseIsStopped(t *testing.T) {
	t.Parallel()
	// Of both channels together, 200 pushes a second at full length.
	load := startHistoryLoad(t, length(100*time.Millisecond, 10*time.Millisecond))
	time.Sleep(2 * time.Second) // what is cold at first
	began := time.Now()
	time.Sleep(length(5*time.Second, 30*time.Second))
	stopped := time.Now()
	load.database.Stop()
	time.Sleep(length(10*time.Second, 2*time.Minute))
	ended := time.Now()
	load.database.Start()
	time.Sleep(2 * time.Second) // pushes that find everything in order again
	load.stop()
	load.reckonAll()

	for channel, latencies := range map[string]func(from, to time.Time) []time.Duration{
		"swrve": func(from, to time.Time) []time.Duration { return load.swrveLatencies(load.users.accepted(), from, to) },
		"fcm":   func(from, to time.Time) []time.Duration { return load.latencies(load.devices.accepted(), from, to) },
	} {
		with, without := latencies(began, stopped), latencies(stopped, ended)
		t.Logf("%s, from POST to provider, p50, p95, p99: %s, %s, %s with PostgreSQL, %s, %s, %s without it", channel,
			percentile(with, 50), percentile(with, 95), percentile(with, 99), percentile(without, 50), percentile(without, 95), percentile(without, 99))
		// A few milliseconds may double for any reason; waiting would take far longer.
		require.LessOrEqual(t, percentile(without, 99), max(2*percentile(with, 99), length(5*time.Second, 250*time.Millisecond)))
	}
}

// Redis is killed and started again while the history is written, and others are told of
// idempotency keys. With appendfsync always it loses nothing.
func TestRedisIsKilledWhileOthersFollow(t *testing.T) {
	t.Parallel()
	load := startHistoryLoad(t, 20*time.Millisecond, "--appendonly", "yes", "--appendfsync", "always")
	other := load.start("worker", "HISTORY_POSTGRESURL="+load.database.URL())
	for range several(2, 5) {
		time.Sleep(2 * time.Second) // the load goes on
		load.Redis.Stop()
		time.Sleep(length(500*time.Millisecond, 5*time.Second))
		load.Redis.Start()
		load.api.WaitReady()
		other.WaitReady()
	}
	time.Sleep(time.Second)
	load.stop()
	load.reckonAll()
	refused := slices.ContainsFunc(load.users.all(), func(p posting) bool { return p.repeated > 0 || p.status == http.StatusServiceUnavailable })
	require.True(t, refused, "the kill was noticed")
	client := load.Redis.Client(t)
	for _, posting := range load.devices.accepted() {
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
