package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"pushq/internal/testenv"
	"pushq/tasks"
)

// The numbers of docs/redis.md and docs/deployment.md for notifications.
func TestMemoryOfANotification(t *testing.T) {
	t.Parallel()
	const notifications, callers = 500, 8
	token := strings.Repeat("x", 150) // as long as Firebase's are
	w := newFCMWorld(t)
	database := testenv.StartPostgres(t)
	database.Stop()
	settings := append(w.settings, "HISTORY_POSTGRESURL="+database.URL(), "FCM_DELAYMILLIS=0.2", "FCM_CONCURRENCY=50")
	api := w.startReady("api", settings...)
	client := w.Redis.Client(t)
	notify(t, api, notificationBody("warm-up"))
	empty := memoryOfKeys(t, client)
	ids := make([]string, notifications)
	var posting sync.WaitGroup
	for caller := range callers {
		posting.Go(func() {
			for number := caller; number < notifications; number += callers {
				body := notificationBody(fmt.Sprintf("device-%d", number), `"recipient":"`, `"recipient":"`+token)
				ids[number], _ = notify(t, api, body)
			}
		})
	}
	posting.Wait()
	queued := (memoryOfKeys(t, client) - empty) / notifications

	w.startReady("worker", settings...)
	waitForAll(t, api, ids, tasks.Sent, 60*time.Second)
	const history = "pushq:{fcm}:follow:history"
	testenv.Eventually(t, 20*time.Second, "all entries", func() bool { return client.XLen(t.Context(), history).Val() > notifications })
	entry := int(client.MemoryUsage(t.Context(), history, 0).Val()) / notifications
	database.Start()
	testenv.Eventually(t, 60*time.Second, "all rows", func() bool { return client.XLen(t.Context(), history).Val() == 0 })
	size := func(key string) int { return int(client.MemoryUsage(t.Context(), key, 0).Val()) }
	claims := client.Keys(t.Context(), "pushq:{fcm}:idem:*").Val()
	record, claim := size(tasks.FCM.RecordKey(ids[0])), size(claims[0])
	completed, state := size("asynq:{fcm}:t:"+ids[0]), size(tasks.IdempotencyStateKey("key-device-0"))
	connection, err := pgx.Connect(t.Context(), database.URL())
	require.NoError(t, err)
	defer func() { _ = connection.Close(context.WithoutCancel(t.Context())) }()
	var inPostgres int
	require.NoError(t, connection.QueryRow(t.Context(), `SELECT sum(pg_total_relation_size(name)) FROM
		unnest(ARRAY['push_notifications', 'send_attempts', 'audit_logs']) AS name`).Scan(&inPostgres))
	t.Logf("bytes for a notification: in Redis %d queued; afterwards %d as a completed task, %d as a record, %d as a claim, %d as a state; %d while PostgreSQL is away; %d in PostgreSQL",
		queued, completed, record, claim, state, entry, inPostgres/notifications)
	for name, bytes := range map[string][2]int{ // docs/redis.md, docs/deployment.md
		"queued": {queued, 1300}, "completed": {completed, 1300}, "record": {record, 1300}, "claim": {claim, 250},
		"state": {state, 150}, "entry": {entry, 1000}, "rows": {inPostgres / notifications, 2600},
	} {
		require.Positive(t, bytes[0], name)
		require.LessOrEqual(t, bytes[0], bytes[1], name)
	}
}

// memoryOfKeys is the sum of MEMORY USAGE over all keys. Unlike used_memory it
// holds nothing of Redis's own buffers, which for a few hundred notifications
// are as large as what is measured.
func memoryOfKeys(t *testing.T, client *redis.Client) int {
	t.Helper()
	sum := 0
	for _, key := range client.Keys(t.Context(), "*").Val() {
		sum += int(client.MemoryUsage(t.Context(), key, 0).Val())
	}
	return sum
}
