package main

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"pushq/config"
	"pushq/internal/metrics"
	"pushq/internal/testenv"
	"pushq/tasks"
)

// A message that brings a bug to light is put where people look, instead of coming again
// for ever.
func TestAMessageThatMakesTheIntakePanicIsAFailure(t *testing.T) {
	t.Parallel()
	rabbit := testenv.StartRabbitMQ(t)
	var log bytes.Buffer
	s := &service{
		settings: config.Default(), roles: roles{worker: true}, log: slog.New(slog.NewTextHandler(&log, nil)),
		channels: channels{{Channel: tasks.FCM}}, // without anything to store messages with
	}
	s.metrics = metrics.New("test", s.log)
	s.settings.RabbitMQ.URL = config.Secret(rabbit.URL())
	require.NoError(t, s.openRabbitMQ())
	defer s.publisher.Close()
	s.redisChecked.Store(true)
	message := testenv.Notification()
	require.NoError(t, s.takeMessage(t.Context(), message))
	failed := takeFailures(t, rabbit, 1)[string(message)]
	require.Equal(t, "pushq has a bug, its log says more", failed.Reason)
	require.Contains(t, log.String(), "storeMessage")
	require.Contains(t, log.String(), "a message cannot be used")
}
