package rabbitmq

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"pushq/internal/testenv"
)

// TestRestarts publishes and takes 3,000 messages while the server is stopped and
// started, and then killed and started.
func TestRestarts(t *testing.T) {
	t.Parallel()
	const messages = 3000
	w := newWorld(t, testenv.StartRabbitMQ(t))
	got := newSeen()
	slowly := func(_ context.Context, body []byte) error {
		got.in(body)
		defer got.out()
		time.Sleep(3 * time.Millisecond)
		return nil
	}
	consumers := []*runningConsumer{w.run(slowly, nil), w.run(slowly, nil)}
	publisher := w.publisher(nil)

	numbers := make(chan int)
	var publishing sync.WaitGroup
	for range 20 {
		publishing.Go(func() {
			for number := range numbers {
				if err := publisher.Publish(within(w, 4*patience), w.queue, fmt.Append(nil, number)); err != nil {
					w.Errorf("publish message %d: %v", number, err)
				}
			}
		})
	}
	publishing.Go(func() {
		defer close(numbers)
		for number := range messages {
			numbers <- number
		}
	})
	got.waitForBodies(w, messages/4)
	w.server.Stop()
	testenv.Eventually(w, patience, "the end to be noticed", func() bool { return consumers[0].Healthy() != nil })
	w.server.Start()
	got.waitForBodies(w, messages/2)
	w.server.Kill()
	w.server.Start()
	publishing.Wait()
	got.waitForBodies(w, messages)
	w.requireReady(0) // also of those that came again
	for _, consumer := range consumers {
		consumer.stop()
	}
	w.requireReady(0)
	bodies, calls, _, peak := got.counts()
	require.Equal(w, messages, bodies)
	require.LessOrEqual(w, peak, 20)
	w.Logf("%d messages came again", calls-messages)
}

// TestTroubles has what a server can do to those that are connected to it, one after the
// other.
func TestTroubles(t *testing.T) {
	t.Parallel()
	server := testenv.StartRabbitMQ(t, "consumer_timeout = 1000")
	server.Control("eval", "application:set_env(rabbit, channel_tick_interval, 200).") // how often that is looked at
	for _, test := range []struct {
		name string
		run  func(*world)
	}{
		{"a consumer that takes too long", testConsumerTimeout},
		{"all connections closed", testConnectionsClosed},
		{"short of memory", testShortOfMemory},
		{"frozen", testFrozen},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(newWorld(t, server)) })
	}
}

// testConsumerTimeout: RabbitMQ closes the channel of a consumer that has a message for
// too long, and gives the message to the next.
func testConsumerTimeout(w *world) {
	w.putNumbers(1)
	got, release := newSeen(), make(chan struct{})
	w.run(got.until(release), func(o *ConsumerOptions) { o.Grace = 100 * time.Millisecond })
	testenv.Eventually(w, patience, "the message twice", func() bool { _, calls, _, _ := got.counts(); return calls >= 2 })
	close(release)
	w.requireReady(0)
	testenv.Eventually(w, patience, "no call under way", func() bool { _, _, now, _ := got.counts(); return now == 0 })
}

func testConnectionsClosed(w *world) {
	got := newSeen()
	consumer := w.run(got.count, nil)
	testenv.Eventually(w, patience, "the consumer", func() bool { return consumer.Healthy() == nil })
	publisher := w.publisher(nil)
	require.NoError(w, publisher.Publish(within(w, patience), w.queue, []byte("1")))
	got.waitForBodies(w, 1)
	w.server.Control("close_all_connections", "for a test")
	require.NoError(w, publisher.Publish(within(w, patience), w.queue, []byte("2")))
	got.waitForBodies(w, 2)
}

// testShortOfMemory: RabbitMQ stops reading from those who publish, and says so.
func testShortOfMemory(w *world) {
	const confirmTimeout = 10 * time.Second
	publisher := w.publisher(func(o *PublisherOptions) { o.ConfirmTimeout = confirmTimeout })
	require.NoError(w, publisher.Publish(within(w, patience), w.queue, []byte("1")))
	w.server.Control("set_vm_memory_high_watermark", "0.00001")
	link := publisher.link
	publishes := func() <-chan error {
		published := make(chan error, 1)
		go func() { published <- publisher.Publish(w.Context(), w.queue, []byte("2")) }()
		return published
	}
	// RabbitMQ tells those who publish now, takes the first of these, and reads no more.
	first := publishes()
	testenv.Eventually(w, patience, "the alarm", func() bool { return link.blockedBy() != "" })
	all := []<-chan error{first}
	for range 20 {
		all = append(all, publishes())
	}
	require.ErrorContains(w, publisher.Check(w.Context()), "takes no messages for now: it is low on memory")
	err := publisher.Publish(within(w, 2*confirmTimeout), w.queue, []byte("too late"))
	require.ErrorIs(w, err, context.DeadlineExceeded)
	require.ErrorContains(w, err, "takes no messages for now: it is low on memory")
	for _, published := range all[1:] {
		require.Empty(w, published, "published while RabbitMQ takes no messages")
	}
	w.server.Control("set_vm_memory_high_watermark", "0.4")
	for _, published := range all {
		require.NoError(w, <-published)
	}
	require.NoError(w, publisher.Check(w.Context()))
	require.Same(w, link, publisher.link, "the connection was given up")
	require.Equal(w, 1+len(all), w.ready(), "some were published again")
}

// testFrozen: nobody waits longer than he wants to, and all goes on afterwards.
func testFrozen(w *world) {
	got := newSeen()
	consumer := w.run(got.count, nil)
	testenv.Eventually(w, patience, "the consumer", func() bool { return consumer.Healthy() == nil })
	publisher := w.publisher(nil)
	require.NoError(w, publisher.Publish(within(w, patience), w.queue, []byte("1")))
	got.waitForBodies(w, 1)

	w.server.Freeze()
	began := time.Now()
	require.ErrorIs(w, publisher.Publish(within(w, 300*time.Millisecond), w.queue, []byte("2")), context.DeadlineExceeded)
	require.ErrorIs(w, publisher.Check(within(w, 300*time.Millisecond)), context.DeadlineExceeded)
	other := w.run(got.count, nil)
	other.stop()
	publisher.Close()
	require.Less(w, time.Since(began), patience)
	w.server.Thaw()
	require.NoError(w, w.publisher(nil).Publish(within(w, patience), w.queue, []byte("3")))
	got.waitForBodies(w, 3) // the second had been sent
	w.server.Freeze()
	began = time.Now()
	consumer.stop()
	require.Less(w, time.Since(began), patience)
	w.server.Thaw()
}

// TestNothingIsLeftBehind is not parallel to others, for it counts goroutines.
func TestNothingIsLeftBehind(t *testing.T) {
	w := newWorld(t, testenv.StartRabbitMQ(t))
	watcher := w.channel()
	before := runtime.NumGoroutine()
	for range 5 {
		got := newSeen()
		publisher, err := NewPublisher(PublisherOptions{URL: w.server.URL(), Log: silent})
		require.NoError(w, err)
		require.NoError(w, publisher.Publish(within(w, patience), w.queue, []byte("1")))
		_, err = publisher.Depth(w.Context(), "nowhere")
		require.NoError(w, err)
		consumer := w.run(got.count, nil)
		got.waitForBodies(w, 1)
		consumer.stop()
		publisher.Close()
	}
	testenv.EventuallyNoError(w, patience, func() error {
		if now := runtime.NumGoroutine(); now > before {
			return fmt.Errorf("%d goroutines, %d before", now, before)
		}
		return nil
	})
	queue, err := watcher.QueueDeclarePassive(w.queue, true, false, false, false, amqp.Table{})
	require.NoError(w, err)
	require.Zero(w, queue.Messages)
	require.Zero(w, queue.Consumers)
}
