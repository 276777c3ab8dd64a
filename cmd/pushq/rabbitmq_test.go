package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	"pushq/config"
	"pushq/internal/metrics"
	"pushq/internal/rabbitmq"
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

// A message whose key stands for another one must not be lost with that: it is a failure
// at once, so that the queue moves on, and can be put back when the key is free.
func TestAMessageWhoseKeyStandsForAnother(t *testing.T) {
	t.Parallel()
	w := newFCMWorld(t)
	rabbit := testenv.StartRabbitMQ(t)
	worker := w.startReady("worker", append(w.settings, "RABBITMQ_URL="+rabbit.URL())...)
	inspector := asynq.NewInspectorFromRedisClient(w.Redis.Client(t))
	require.NoError(t, inspector.PauseQueue(tasks.FCM.ImmediateQueue()))
	const key = `"shared-key"`
	first := messageTo("UNREGISTERED-1", "idempotency_key", key)
	other := messageTo("device-2", "idempotency_key", key)
	rabbit.Publish(t, messagesQueue, first)
	testenv.Eventually(t, time.Minute, "the first to be stored", func() bool {
		return w.Redis.Client(t).LLen(t.Context(), "asynq:{fcm}:pending").Val() == 1
	})
	rabbit.Publish(t, messagesQueue, first, other)
	require.Contains(t, takeFailures(t, rabbit, 1)[other].Reason, "the idempotency key was used before with other content: it stands for push ")
	testenv.Eventually(t, time.Minute, "both to be counted", func() bool {
		series := scrape(t, worker).Series
		return series[`pushq_rabbitmq_messages_total{result="refused"}`] == 1 && series[`pushq_rabbitmq_messages_total{result="replayed"}`] == 1
	})

	require.NoError(t, inspector.UnpauseQueue(tasks.FCM.ImmediateQueue()))
	require.Contains(t, takeFailures(t, rabbit, 1)[first].Reason, "UNREGISTERED")
	rabbit.Publish(t, messagesQueue, other)
	testenv.Eventually(t, time.Minute, "the other one to be delivered", func() bool { return w.delivered()["device-2"] == 1 })
	w.requireNothingStuck()
	require.Zero(t, rabbit.Depth(t, failuresQueue))
}

// More keys than are in hand at a time are of another type: each costs its message.
func TestKeysOfAnotherTypeDoNotStopTheIntake(t *testing.T) {
	t.Parallel()
	w := newFCMWorld(t)
	rabbit := testenv.StartRabbitMQ(t)
	w.startReady("worker", append(w.settings, "RABBITMQ_URL="+rabbit.URL(), "RABBITMQ_PREFETCH=2")...)
	poisoned := map[string]string{} // message → key
	var bodies []string
	for number := range 5 {
		device := fmt.Sprint("device-", number)
		key := tasks.IdempotencyStateKey("key-of-" + device)
		if number%2 == 1 {
			key = tasks.FCM.ClaimKey(tasks.KeyedID("", "key-of-"+device))
		}
		require.NoError(t, w.Redis.Client(t).HSet(t.Context(), key, "of", "others").Err())
		poisoned[messageTo(device)] = key
		bodies = append(bodies, messageTo(device))
	}
	rabbit.Publish(t, messagesQueue, append(bodies, messageTo("good"))...)
	failures := takeFailures(t, rabbit, len(bodies))
	for message, key := range poisoned {
		require.Contains(t, failures[message].Reason, key+": WRONGTYPE")
	}
	testenv.Eventually(t, time.Minute, "the good one to be delivered", func() bool { return w.delivered()["good"] == 1 })
}

// The connection is well, and still nothing comes in.
func TestHealthTellsThatTheIntakeStandsStill(t *testing.T) {
	t.Parallel()
	rabbit := testenv.StartRabbitMQ(t)
	log := slog.New(slog.DiscardHandler)
	s := &service{settings: config.Default(), roles: roles{worker: true}, log: log, channels: channels{{Channel: tasks.FCM}}}
	s.settings.RabbitMQ.URL = config.Secret(rabbit.URL())
	require.NoError(t, s.openRabbitMQ())
	defer s.publisher.Close()
	var err error
	s.consumer, err = rabbitmq.NewConsumer(rabbitmq.ConsumerOptions{
		URL: rabbit.URL(), Queue: messagesQueue, Prefetch: 1, Log: log, Overdue: 100 * time.Millisecond,
		Handle: func(context.Context, []byte) error { return errors.New("whatever it is") },
	})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { s.consumer.Run(ctx) })
	defer running.Wait()
	defer stop()
	testenv.EventuallyNoError(t, time.Minute, func() error { return s.rabbitMQCheck().Run(ctx) })
	rabbit.Publish(t, messagesQueue, "{}")
	testenv.EventuallyNoError(t, time.Minute, func() error {
		if err := s.rabbitMQCheck().Run(ctx); err == nil || !strings.Contains(err.Error(), "cannot be taken: whatever it is") {
			return fmt.Errorf("health says: %w", err)
		}
		return nil
	})
	require.True(t, s.rabbitMQCheck().Degrades)
}
