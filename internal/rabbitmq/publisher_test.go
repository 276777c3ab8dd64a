package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"pushq/internal/testenv"
)

func within(w *world, limit time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(w.Context(), limit)
	w.Cleanup(cancel)
	return ctx
}

// publishUntil publishes a message until the publisher has logged a failure that says so,
// and returns the error of the call. It is nil if RabbitMQ takes the message before.
func (w *world) publishUntil(says string, change func(*PublisherOptions)) error {
	w.Helper()
	log := &testenv.Log{}
	publisher := w.publisher(func(o *PublisherOptions) {
		if change != nil {
			change(o)
		}
		o.Log = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	ctx, cancel := context.WithCancel(w.Context())
	defer cancel()
	published := make(chan error, 1)
	go func() { published <- publisher.Publish(ctx, w.queue, []byte("{}")) }()
	testenv.Eventually(w, patience, "the failure or success", func() bool {
		return len(published) > 0 || strings.Contains(log.String(), "publishing a message again") && strings.Contains(log.String(), says)
	})
	cancel()
	err := <-published
	require.NotContains(w, log.String(), "s3cr3t")
	return err
}

func testPublished(w *world) {
	publisher := w.publisher(nil)
	require.NoError(w, publisher.Publish(within(w, patience), w.queue, []byte(`{"a":1}`)))
	w.declare(true, nil) // a refusal if it is not durable
	messages := w.takeAll()
	require.Len(w, messages, 1)
	require.Equal(w, `{"a":1}`, string(messages[0].Body))
	require.Equal(w, amqp.Persistent, messages[0].DeliveryMode)
	require.Equal(w, "application/json", messages[0].ContentType)
	require.Len(w, messages[0].MessageId, 26)
}

func testPublishedByMany(w *world) {
	publisher := w.publisher(nil)
	var all sync.WaitGroup
	failures := make(chan error, 500)
	for goroutine := range 20 {
		all.Go(func() {
			for i := range 25 {
				failures <- publisher.Publish(within(w, patience), w.queue, fmt.Append(nil, goroutine*25+i))
			}
		})
	}
	all.Wait()
	for range 500 {
		require.NoError(w, <-failures)
	}
	bodies := map[string]int{}
	for _, message := range w.takeAll() {
		bodies[string(message.Body)]++
	}
	require.Len(w, bodies, 500)
	for body, times := range bodies {
		require.Equal(w, 1, times, body)
	}
}

func testUnroutable(w *world) {
	publisher := w.publisher(nil)
	require.NoError(w, publisher.Publish(within(w, patience), w.queue, []byte("1")))
	for range 20 {
		_, err := w.channel().QueueDelete(w.queue, false, false, false)
		require.NoError(w, err)
		err = publisher.Publish(within(w, patience), w.queue, []byte("2"))
		require.ErrorIs(w, err, ErrUnroutable)
		require.ErrorContains(w, err, w.queue)
		require.NoError(w, publisher.Publish(within(w, patience), w.queue, []byte("3")))
		require.Len(w, w.takeAll(), 1)
	}
}

func testFullQueue(w *world) {
	w.declare(true, amqp.Table{"x-max-length": 1, "x-overflow": "reject-publish"})
	var err error
	// The limit is approximate: RabbitMQ may take some more.
	for taken := 0; err == nil; taken++ {
		require.Less(w, taken, 100, "RabbitMQ refuses nothing")
		err = w.publishUntil(errRefused.Error(), nil)
	}
	require.ErrorIs(w, err, context.Canceled)
	require.ErrorIs(w, err, errRefused)

	published := make(chan error)
	publisher := w.publisher(nil)
	go func() { published <- publisher.Publish(within(w, patience), w.queue, []byte("3")) }()
	require.NotEmpty(w, w.takeAll())
	testenv.Eventually(w, patience, "room for the message", func() bool {
		w.takeAll()
		select {
		case err = <-published:
			return true
		default:
			return false
		}
	})
	require.NoError(w, err)
}

func testCutBeforeConfirmation(w *world) {
	network := w.proxy()
	publisher := w.publisher(func(o *PublisherOptions) { o.URL = network.url() })
	require.NoError(w, publisher.Publish(within(w, patience), w.queue, []byte("first")))
	network.swallowAnswers()
	published := make(chan error)
	go func() { published <- publisher.Publish(within(w, patience), w.queue, []byte("second")) }()
	w.requireReady(2)
	select {
	case err := <-published:
		w.Fatalf("published without a confirmation: %v", err)
	default:
	}
	network.cutAll()
	require.NoError(w, <-published)
	messages := w.takeAll()
	require.Len(w, messages, 3)
	require.Equal(w, "second", string(messages[1].Body))
	require.Equal(w, "second", string(messages[2].Body))
	require.Equal(w, messages[1].MessageId, messages[2].MessageId)
	require.NotEqual(w, messages[0].MessageId, messages[1].MessageId)
}

func testNoConfirmation(w *world) {
	network := w.proxy()
	publisher := w.publisher(func(o *PublisherOptions) { o.URL, o.ConfirmTimeout = network.url(), 300*time.Millisecond })
	require.NoError(w, publisher.Publish(within(w, patience), w.queue, []byte("first")))
	first := publisher.link
	before := w.ready() // twice, if RabbitMQ was slow
	network.swallowAnswers()
	ctx, cancel := context.WithCancel(w.Context())
	published := make(chan error, 1)
	go func() { published <- publisher.Publish(ctx, w.queue, []byte("second")) }()
	w.requireReady(before + 1)
	testenv.Eventually(w, patience, "the silent connection to be given up", first.isGone)
	cancel()
	require.ErrorIs(w, <-published, context.Canceled)
	network.cutAll()
	require.NoError(w, publisher.Publish(within(w, patience), w.queue, []byte("third")))
	bodies := map[string]bool{}
	for _, message := range w.takeAll() {
		bodies[string(message.Body)] = true
	}
	require.Equal(w, map[string]bool{"first": true, "second": true, "third": true}, bodies, "the second is there, though nobody knew")
}

func testPublisherAway(w *world) {
	network := w.proxy()
	network.Stop()
	away := func(o *PublisherOptions) { o.URL = network.url() }
	err := w.publishUntil("connection refused", away)
	require.ErrorIs(w, err, context.Canceled)
	require.ErrorContains(w, err, "connection refused")
	publisher := w.publisher(away)
	require.ErrorContains(w, publisher.Check(w.Context()), "connection refused")
	published := make(chan error, 5)
	for range 5 {
		go func() { published <- publisher.Publish(within(w, patience), w.queue, []byte("1")) }()
	}
	require.NoError(w, network.Start())
	for range 5 {
		require.NoError(w, <-published)
	}
	require.Len(w, w.takeAll(), 5)
	require.NoError(w, publisher.Check(w.Context()))
}

func testPublisherClosed(w *world) {
	network := w.proxy()
	network.Stop()
	publisher := w.publisher(func(o *PublisherOptions) { o.URL = network.url() })
	published := make(chan error)
	go func() { published <- publisher.Publish(within(w, patience), w.queue, []byte("1")) }()
	testenv.Eventually(w, patience, "a failed connection", func() bool {
		return !errors.Is(publisher.Check(w.Context()), errNotConnected)
	})
	publisher.Close()
	require.ErrorIs(w, <-published, ErrPublisherClosed)
	require.ErrorIs(w, publisher.Publish(within(w, patience), w.queue, nil), ErrPublisherClosed)
	require.ErrorIs(w, publisher.Check(w.Context()), ErrPublisherClosed)
	publisher.Close()
}

func testCheckAndDepth(w *world) {
	publisher := w.publisher(nil)
	require.NoError(w, publisher.Check(w.Context()))
	depth, err := publisher.Depth(w.Context(), w.queue)
	require.NoError(w, err)
	require.Zero(w, depth)
	w.putNumbers(3)
	depth, err = publisher.Depth(w.Context(), w.queue)
	require.NoError(w, err)
	require.Equal(w, 3, depth)
	require.NoError(w, publisher.Check(w.Context()), "after a question for a queue that was not there")
}
