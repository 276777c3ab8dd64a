package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"pushq/internal/fcmsim"
	"pushq/internal/testenv"
	"pushq/tasks"
)

const (
	messagesQueue = "push.queue"
	failuresQueue = "failed.queue"
)

// Messages wait in RabbitMQ, one of three workers is killed, and RabbitMQ restarted
// meanwhile: each recipient gets its message, and the audit log its row. Who gets two has
// an attempt that was interrupted.
func TestMessagesFromRabbitMQArriveWhateverDies(t *testing.T) {
	t.Parallel()
	messages := several(2000, 10_000)
	w := newFCMWorld(t, fcmsim.Config{Latency: 20 * time.Millisecond})
	rabbit, database := testenv.StartRabbitMQ(t), testenv.StartPostgres(t)
	settings := []string{"RABBITMQ_URL=" + rabbit.URL(), "HISTORY_POSTGRESURL=" + database.URL()}
	bodies := make([]string, messages)
	for number := range bodies {
		bodies[number] = testenv.NotificationTo(fmt.Sprintf("device-%d", number))
	}
	rabbit.Publish(t, messagesQueue, bodies...)
	began := time.Now()
	victim := w.start("worker", settings...)
	for range 2 {
		w.start("worker", settings...)
	}
	testenv.Eventually(t, time.Minute, "a tenth to be delivered", func() bool { return len(w.Delivered()) > messages/10 })
	victim.Kill()
	if !*full {
		expireLeases(t, w.Redis.Client(t))
	}
	rabbit.Stop()
	rabbit.Start()
	testenv.Eventually(t, 3*time.Minute, "all to be delivered", func() bool { return len(w.Delivered()) == messages })
	t.Logf("%d messages were delivered in %.1f s", messages, time.Since(began).Seconds())

	var explained map[string]int
	testenv.EventuallyNoError(t, 2*time.Minute, func() (err error) {
		audited := 0
		if explained, audited, err = readAudit(t.Context(), database); err == nil && audited != messages {
			time.Sleep(200 * time.Millisecond) // each look reads all of them
			err = fmt.Errorf("%d of %d are in the audit log", audited, messages)
		}
		return err
	})
	require.Len(t, explained, messages)
	twice := 0
	for device, count := range w.Delivered() {
		require.LessOrEqual(t, count, explained[device], "messages to %s that no attempt accounts for", device)
		twice += count - 1
	}
	t.Logf("%d of them twice", twice)
	const inHand = 2 * 10 // of a worker: both queues
	require.LessOrEqual(t, twice, inHand)
	require.Zero(t, rabbit.Depth(t, messagesQueue))
	require.Zero(t, rabbit.Depth(t, failuresQueue))
}

// readAudit returns for how many messages the attempts of each device account, and how
// many rows the audit log has, each of another push.
func readAudit(ctx context.Context, database *testenv.Postgres) (explained map[string]int, audited int, err error) {
	connection, err := pgx.Connect(ctx, database.URL())
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = connection.Close(ctx) }()
	var pushes int
	if err := connection.QueryRow(ctx, "SELECT count(*), count(DISTINCT user_id) FROM audit_logs WHERE status = 'SENT'").Scan(&audited, &pushes); err != nil {
		return nil, 0, err
	}
	if pushes != audited {
		return nil, 0, fmt.Errorf("%d rows in the audit log, of %d users", audited, pushes)
	}
	rows, err := connection.Query(ctx, `SELECT p.notification->>'recipient', count(*) FILTER (WHERE a.maybe_delivered OR a.status = 'OK')
		FROM push_notifications p JOIN send_attempts a ON a.push_id = p.id GROUP BY 1`)
	if err != nil {
		return nil, 0, err
	}
	explained = make(map[string]int)
	var device string
	var count int
	_, err = pgx.ForEachRow(rows, []any{&device, &count}, func() error {
		explained[device] = count
		return nil
	})
	return explained, audited, err
}

// With dead-letter, pushes end while the breaker is open. What RabbitMQ cannot be told of
// them when they do is kept, and told when it is back.
func TestDeadLettersWaitForRabbitMQ(t *testing.T) {
	t.Parallel()
	const told, kept = 8, 5
	w := newFCMWorld(t, fcmsim.Config{})
	rabbit := testenv.StartRabbitMQ(t)
	rabbit.Declare(t, failuresQueue)
	require.NoError(t, w.Firebase.SetOutcome("503-"))
	serve := w.start("serve", "RABBITMQ_URL="+rabbit.URL(), "FCM_BREAKER_ONOPEN=dead-letter", "FCM_BREAKER_OPENFOR=10m")
	callers := newNotifiers(t)
	callers.patient = true
	callers.post(told, serve.URL())
	w.waitUntilEnded(callers, serve, 30*time.Second)
	testenv.Eventually(t, 20*time.Second, "the failures to be in RabbitMQ", func() bool { return rabbit.Depth(t, failuresQueue) == told })

	rabbit.Kill()
	callers.post(kept, serve.URL())
	w.waitUntilEnded(callers, serve, 30*time.Second)
	client := w.Redis.Client(t)
	require.EqualValues(t, kept, client.XLen(t.Context(), tasks.FCM.FollowKey("failed")).Val())
	time.Sleep(length(time.Second, 30*time.Second)) // it stays away
	rabbit.Start()
	testenv.Eventually(t, time.Minute, "the others to be in RabbitMQ", func() bool { return rabbit.Depth(t, failuresQueue) == told+kept })
	testenv.Eventually(t, 20*time.Second, "nothing to be left", func() bool {
		return client.XLen(t.Context(), tasks.FCM.FollowKey("failed")).Val() == 0
	})

	account := w.reckonNotifications(callers, serve)
	require.Equal(t, told+kept, account.failed)
	require.Len(t, w.Firebase.Ledger(), 5)
	recipients := make(map[string]int)
	for _, body := range rabbit.Take(t, failuresQueue) {
		var failed struct {
			Original struct {
				Recipient string `json:"recipient"`
			} `json:"original_message"`
			Reason string `json:"failure_reason"`
		}
		require.NoError(t, json.Unmarshal([]byte(body), &failed))
		require.Contains(t, failed.Reason, "the circuit breaker of fcm is open")
		recipients[failed.Original.Recipient]++
	}
	require.Len(t, recipients, told+kept)
	for _, posting := range callers.accepted() {
		require.Equal(t, 1, recipients[posting.user], posting.user)
		key := tasks.IdempotencyStateKey("key-" + posting.user)
		testenv.Eventually(t, 20*time.Second, key, func() bool { return client.Get(t.Context(), key).Val() == tasks.IdempotencyFailed })
	}
}
