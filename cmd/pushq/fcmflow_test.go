package main

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"pushq/internal/testenv"
)

const (
	messagesQueue = "push.queue"
	failuresQueue = "failed.queue"
)

// publishAll puts messages into the queue, and returns when RabbitMQ has them.
func publishAll(t *testing.T, server *testenv.RabbitMQ, bodies []string) {
	t.Helper()
	channel, err := server.Connect(t).Channel()
	require.NoError(t, err)
	require.NoError(t, channel.Confirm(false))
	_, err = channel.QueueDeclare(messagesQueue, true, false, false, false, nil)
	require.NoError(t, err)
	confirmed := channel.NotifyPublish(make(chan amqp.Confirmation, len(bodies)))
	for _, body := range bodies {
		require.NoError(t, channel.PublishWithContext(t.Context(), "", messagesQueue, true, false,
			amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte(body)}))
	}
	for range bodies {
		select {
		case confirmation := <-confirmed:
			require.True(t, confirmation.Ack)
		case <-time.After(time.Minute):
			t.Fatal("RabbitMQ does not confirm")
		}
	}
}

// depth is how many messages wait in a queue that exists.
func depth(t *testing.T, server *testenv.RabbitMQ, queue string) int {
	t.Helper()
	channel, err := server.Connect(t).Channel()
	require.NoError(t, err)
	defer func() { _ = channel.Close() }()
	state, err := channel.QueueDeclarePassive(queue, true, false, false, false, nil)
	require.NoError(t, err)
	return state.Messages
}

// rows counts the rows of a table, and how many different values a column has.
func rows(t *testing.T, database *testenv.Postgres, table, column string) (count, different int) {
	t.Helper()
	connection, err := pgx.Connect(t.Context(), database.URL())
	require.NoError(t, err)
	defer func() { _ = connection.Close(context.WithoutCancel(t.Context())) }()
	err = connection.QueryRow(t.Context(), fmt.Sprintf("SELECT count(*), count(DISTINCT %s) FROM %s", column, table)).Scan(&count, &different)
	require.NoError(t, err)
	return count, different
}

// Ten thousand messages in RabbitMQ, three workers of which one is killed, and RabbitMQ
// restarted meanwhile: each recipient gets its message, and the audit log a row.
func TestMessagesFromRabbitMQArriveWhateverDies(t *testing.T) {
	t.Parallel()
	const messages = 10_000
	w := newFCMWorld(t)
	rabbit, database := testenv.StartRabbitMQ(t), testenv.StartPostgres(t)
	settings := append(w.settings, "RABBITMQ_URL="+rabbit.URL(), "HISTORY_POSTGRESURL="+database.URL())
	bodies := make([]string, messages)
	for number := range bodies {
		bodies[number] = notificationBody(fmt.Sprintf("device-%d", number))
	}
	publishAll(t, rabbit, bodies)

	var workers []*testenv.Process
	for range 3 {
		workers = append(workers, w.startReady("worker", settings...))
	}
	testenv.Eventually(t, time.Minute, "a tenth is delivered", func() bool { return len(w.delivered()) > messages/10 })
	workers[0].Kill()
	rabbit.Stop()
	rabbit.Start()
	testenv.Eventually(t, 3*time.Minute, "all are delivered", func() bool { return len(w.delivered()) == messages })

	twice := 0
	for _, count := range w.delivered() {
		if count > 1 {
			twice++
		}
	}
	t.Logf("%d messages, %d of them twice after the kill of a worker", messages, twice)
	require.LessOrEqual(t, twice, 20, "no more than a worker has in hand")
	testenv.Eventually(t, time.Minute, "all are in the audit log", func() bool {
		count, _ := rows(t, database, "audit_logs", "user_id")
		return count >= messages
	})
	count, different := rows(t, database, "audit_logs", "user_id")
	require.Equal(t, messages, count)
	require.Equal(t, messages, different)
	require.Zero(t, depth(t, rabbit, messagesQueue))
}
