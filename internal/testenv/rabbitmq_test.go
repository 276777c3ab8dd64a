package testenv

import (
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
)

func TestRabbitMQ(t *testing.T) {
	t.Parallel()
	var pids []int
	t.Run("a test", func(t *testing.T) {
		server := StartRabbitMQ(t)
		pids = append(pids, server.epmd.pid(), server.child.pid())
		publishConfirmed(t, server, "first")
		require.Contains(t, server.Control("list_queues", "name", "messages"), "safe\t1")

		server.Stop()
		_, err := amqp.Dial(server.URL())
		require.ErrorContains(t, err, "connection refused")
		server.Start()
		publishConfirmed(t, server, "second")
		server.Kill()
		server.Start()
		require.Equal(t, 2, messages(t, server))

		server.Freeze()
		require.Equal(t, byte('T'), processState(server.child.pid()))
		server.Thaw()
		require.Equal(t, 2, messages(t, server))
		server.Freeze()
		pids = append(pids, server.child.pid())
	})
	for _, pid := range pids {
		require.Zero(t, processState(pid), "a process outlives its test")
	}
}

func TestRabbitMQWithAWrongConfiguration(t *testing.T) {
	t.Parallel()
	failed, said := failing(t, func(t testing.TB) { StartRabbitMQ(t, "no_such.setting = 1") })
	require.True(t, failed)
	require.Contains(t, said, "rabbitmq-server ended at start")
	require.Contains(t, said, "no_such.setting")
}

func publishConfirmed(t *testing.T, server *RabbitMQ, body string) {
	t.Helper()
	channel, err := server.Connect(t).Channel()
	require.NoError(t, err)
	require.NoError(t, channel.Confirm(false))
	_, err = channel.QueueDeclare("safe", true, false, false, false, nil)
	require.NoError(t, err)
	confirmation, err := channel.PublishWithDeferredConfirm("", "safe", true, false, amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte(body)})
	require.NoError(t, err)
	Eventually(t, 10*time.Second, "the confirmation", confirmation.Acked)
}

func messages(t *testing.T, server *RabbitMQ) int {
	t.Helper()
	channel, err := server.Connect(t).Channel()
	require.NoError(t, err)
	queue, err := channel.QueueDeclarePassive("safe", true, false, false, false, nil)
	require.NoError(t, err)
	return queue.Messages
}
