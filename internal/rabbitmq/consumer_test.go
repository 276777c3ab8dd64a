package rabbitmq

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"pushq/internal/testenv"
)

// count is a Handle that only counts.
func (s *seen) count(_ context.Context, body []byte) error {
	s.in(body)
	s.out()
	return nil
}

// until is a Handle that returns when release is closed, or its context ends.
func (s *seen) until(release <-chan struct{}) func(ctx context.Context, body []byte) error {
	return func(ctx context.Context, body []byte) error {
		s.in(body)
		defer s.out()
		select {
		case <-release:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func testHandled(w *world) {
	w.putNumbers(200)
	got := newSeen()
	consumer := w.run(got.count, nil)
	got.waitForBodies(w, 200)
	require.NoError(w, consumer.Healthy())
	w.requireReady(0)
	consumer.stop()
	require.ErrorIs(w, consumer.Healthy(), errNotConnected)
	require.Zero(w, w.ready(), "some were not acknowledged")
	_, calls, _, _ := got.counts()
	require.Equal(w, 200, calls)
}

func testLargeMessage(w *world) {
	body := bytes.Repeat([]byte("0123456789abcdef"), 1<<16) // 1 MiB, several frames
	require.NoError(w, w.publisher(nil).Publish(within(w, patience), w.queue, body))
	arrived := make(chan []byte, 1)
	w.run(func(_ context.Context, body []byte) error {
		arrived <- body
		return nil
	}, nil)
	require.True(w, bytes.Equal(body, <-arrived))
	w.requireReady(0)
}

func testPrefetch(w *world) {
	w.putNumbers(50)
	got, release := newSeen(), make(chan struct{})
	w.run(got.until(release), func(o *ConsumerOptions) { o.Prefetch = 7 })
	testenv.Eventually(w, patience, "7 messages in hand", func() bool { _, _, now, _ := got.counts(); return now == 7 })
	require.Equal(w, 43, w.ready())
	close(release)
	got.waitForBodies(w, 50)
	_, calls, _, peak := got.counts()
	require.Equal(w, 50, calls)
	require.Equal(w, 7, peak)
}

func testFailures(w *world) {
	w.putNumbers(3)
	got := newSeen()
	var succeeded atomic.Int32
	w.run(func(_ context.Context, body []byte) error {
		defer got.out()
		if got.in(body) <= 3 {
			return errors.New("not yet")
		}
		succeeded.Add(1)
		return nil
	}, nil)
	testenv.Eventually(w, patience, "three successes", func() bool { return succeeded.Load() == 3 })
	_, calls, _, _ := got.counts()
	require.Equal(w, 12, calls)
	w.requireReady(0)
}

// testAllFails is Redis away: what is in hand waits, and nothing else is fetched.
func testAllFails(w *world) {
	w.putNumbers(100)
	got := newSeen()
	log := &testenv.Log{}
	var mutex sync.Mutex
	tries := map[string][]time.Time{}
	consumer := w.run(func(_ context.Context, body []byte) error {
		defer got.out()
		got.in(body)
		mutex.Lock()
		defer mutex.Unlock()
		tries[string(body)] = append(tries[string(body)], time.Now())
		return errors.New("the store is away")
	}, func(o *ConsumerOptions) { o.Log = slog.New(slog.NewTextHandler(log, nil)) })
	testenv.Eventually(w, patience, "four tries of each", func() bool {
		mutex.Lock()
		defer mutex.Unlock()
		for _, times := range tries {
			if len(times) < 4 {
				return false
			}
		}
		return len(tries) > 0
	})
	bodies, _, _, _ := got.counts()
	require.Equal(w, 10, bodies)
	mutex.Lock()
	for _, times := range tries {
		require.GreaterOrEqual(w, times[3].Sub(times[2]), backoff.First, "tries do not become rarer")
	}
	mutex.Unlock()
	require.Equal(w, 90, w.ready())
	require.NoError(w, consumer.Healthy())
	consumer.stop()
	w.requireReady(100)
	require.Equal(w, 10, strings.Count(log.String(), "cannot be taken"), "one line for each message")
}

func testPanic(w *world) {
	w.putNumbers(1)
	got := newSeen()
	w.run(func(_ context.Context, body []byte) error {
		defer got.out()
		if got.in(body) <= 2 {
			panic("on purpose")
		}
		return nil
	}, nil)
	testenv.Eventually(w, patience, "a third call", func() bool { _, calls, _, _ := got.counts(); return calls == 3 })
	w.requireReady(0)
}

// testPoison has messages that nobody can handle among others.
func testPoison(w *world) {
	w.putNumbers(100)
	got := newSeen()
	var handled atomic.Int32
	consumer := w.run(func(_ context.Context, body []byte) error {
		defer got.out()
		got.in(body)
		if string(body) == "3" || string(body) == "30" {
			return errors.New("unreadable")
		}
		handled.Add(1)
		return nil
	}, nil)
	testenv.Eventually(w, patience, "all others", func() bool { return handled.Load() == 98 })
	consumer.stop()
	w.requireReady(2)
}

// testOverdue has a message that nobody can handle, and one that is never done with:
// whoever asks how the consumer is must learn of either, though it is connected.
func testOverdue(w *world) {
	w.putNumbers(20)
	got, release := newSeen(), make(chan struct{})
	var mended atomic.Bool
	consumer := w.run(func(ctx context.Context, body []byte) error {
		defer got.out()
		got.in(body)
		switch {
		case string(body) == "3" && !mended.Load():
			return errors.New("WRONGTYPE, for one")
		case string(body) == "7":
			<-release
		}
		return nil
	}, func(o *ConsumerOptions) { o.Overdue = 100 * time.Millisecond })
	got.waitForBodies(w, 20)
	waitUntil := func(part string) {
		w.Helper()
		testenv.EventuallyNoError(w, patience, func() error {
			var overdue *OverdueError
			if err := consumer.Healthy(); !errors.As(err, &overdue) || !strings.Contains(err.Error(), part) {
				return fmt.Errorf("healthy says: %v", err)
			}
			return nil
		})
	}
	waitUntil("a message has been in hand for ")
	close(release)
	waitUntil(" and cannot be taken: WRONGTYPE, for one")
	require.True(w, consumer.Connected())
	require.Greater(w, consumer.OldestInHand(), 100*time.Millisecond)
	mended.Store(true)
	testenv.EventuallyNoError(w, patience, consumer.Healthy)
	w.requireReady(0)
	testenv.Eventually(w, patience, "nothing in hand", func() bool { return consumer.OldestInHand() == 0 })
	consumer.stop()
	require.False(w, consumer.Connected())
}

func testStop(w *world) {
	w.putNumbers(30)
	got, release := newSeen(), make(chan struct{})
	consumer := w.run(got.until(release), func(o *ConsumerOptions) { o.Grace = patience })
	testenv.Eventually(w, patience, "10 messages in hand", func() bool { _, _, now, _ := got.counts(); return now == 10 })
	stopped := make(chan struct{})
	go func() {
		consumer.stop()
		close(stopped)
	}()
	// RabbitMQ must not give us others for those that are acknowledged now.
	testenv.Eventually(w, patience, "the end of the consumer", func() bool { return w.inspect().Consumers == 0 })
	select {
	case <-stopped:
		w.Fatal("stopped while messages are in hand")
	default:
	}
	close(release)
	<-stopped
	w.requireReady(20)
	_, calls, _, _ := got.counts()
	require.Equal(w, 10, calls)
}

func testStopWithinGrace(w *world) {
	w.putNumbers(30)
	got := newSeen()
	consumer := w.run(got.until(nil), func(o *ConsumerOptions) { o.Grace = 200 * time.Millisecond })
	testenv.Eventually(w, patience, "10 messages in hand", func() bool { _, _, now, _ := got.counts(); return now == 10 })
	consumer.stop()
	w.requireReady(30)
}

// testStopWhileFailing must not wait for the next try.
func testStopWhileFailing(w *world) {
	w.putNumbers(1)
	got := newSeen()
	consumer := w.run(func(_ context.Context, body []byte) error {
		defer got.out()
		got.in(body)
		return errors.New("no")
	}, func(o *ConsumerOptions) { o.Grace = time.Hour })
	testenv.Eventually(w, patience, "five tries", func() bool { _, calls, _, _ := got.counts(); return calls >= 5 })
	began := time.Now()
	consumer.stop()
	require.Less(w, time.Since(began), consumer.Grace)
	w.requireReady(1)
}

func testConsumerMakesQueue(w *world) {
	got := newSeen()
	consumer := w.run(got.count, nil)
	testenv.Eventually(w, patience, "the consumer", func() bool { return consumer.Healthy() == nil })
	w.declare(true, nil) // a refusal if it is not durable
	w.put(amqp.Publishing{Body: []byte("1")})
	got.waitForBodies(w, 1)
}

func testQueueAsItIs(w *world) {
	w.declare(false, amqp.Table{"x-max-length": 100})
	got := newSeen()
	w.run(got.count, nil)
	require.NoError(w, w.publisher(nil).Publish(within(w, patience), w.queue, []byte("1")))
	got.waitForBodies(w, 1)
}

func testQueueDeleted(w *world) {
	got := newSeen()
	consumer := w.run(got.count, nil)
	testenv.Eventually(w, patience, "the consumer", func() bool { return consumer.Healthy() == nil })
	_, err := w.channel().QueueDelete(w.queue, false, false, false)
	require.NoError(w, err)
	publisher := w.publisher(nil)
	require.NoError(w, publisher.Publish(within(w, patience), w.queue, []byte("1"))) // whoever makes the queue
	got.waitForBodies(w, 1)
}

// testConsumerCut loses the connection while messages are in hand: their
// acknowledgements are lost, so they come again.
func testConsumerCut(w *world) {
	w.putNumbers(20)
	network := w.proxy()
	got, release := newSeen(), make(chan struct{})
	consumer := w.run(got.until(release), func(o *ConsumerOptions) { o.URL, o.Grace = network.url(), patience })
	testenv.Eventually(w, patience, "10 messages in hand", func() bool { _, _, now, _ := got.counts(); return now == 10 })
	require.Zero(w, consumer.Reconnects())
	network.cutAll()
	w.requireReady(20)
	close(release)
	got.waitForBodies(w, 20)
	w.requireReady(0)
	require.Equal(w, 1, consumer.Reconnects())
	consumer.stop()
	require.Zero(w, w.ready())
	_, calls, _, peak := got.counts()
	require.Equal(w, 30, calls, "ten of them twice")
	require.Equal(w, 10, peak, "more in hand than the prefetch")
}

// testSilentNetwork has no end of a connection to tell that it is dead.
func testSilentNetwork(w *world) {
	network := w.proxy()
	got := newSeen()
	consumer := w.run(got.count, func(o *ConsumerOptions) { o.URL = network.url() + "?heartbeat=2" })
	testenv.Eventually(w, patience, "the consumer", func() bool { return consumer.Healthy() == nil })
	network.swallowAnswers()
	testenv.Eventually(w, patience, "the silence to be noticed", func() bool { return consumer.Healthy() != nil })
	network.cutAll()
	require.NoError(w, w.publisher(nil).Publish(within(w, patience), w.queue, []byte("1")))
	got.waitForBodies(w, 1)
}

func testWrongPassword(w *world) {
	const password = "s3cr3t-%25-password"
	url := "amqp://guest:" + password + "@" + w.server.Addr() + "/"
	log := &testenv.Log{}
	consumer := w.run(newSeen().count, func(o *ConsumerOptions) {
		o.URL, o.Log = url, slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	testenv.Eventually(w, patience, "a refusal", func() bool { return !errors.Is(consumer.Healthy(), errNotConnected) })
	require.ErrorContains(w, consumer.Healthy(), "see the user and the password in the URL")
	require.ErrorContains(w, consumer.Healthy(), w.server.Addr())
	err := w.publishUntil("not allowed", func(o *PublisherOptions) { o.URL = url }) // RabbitMQ refuses after 3 s
	require.ErrorIs(w, err, context.Canceled)
	require.ErrorContains(w, err, "username or password not allowed")
	consumer.stop()
	for _, text := range []string{consumer.Healthy().Error(), err.Error(), log.String()} {
		require.NotContains(w, text, "s3cr3t")
	}
}

func testMissingPermissions(w *world) {
	w.server.Control("add_user", "reader", "password")
	w.server.Control("set_permissions", "reader", "^$", "^$", "^$")
	consumer := w.run(newSeen().count, func(o *ConsumerOptions) { o.URL = "amqp://reader:password@" + w.server.Addr() + "/" })
	testenv.Eventually(w, patience, "a refusal", func() bool { return !errors.Is(consumer.Healthy(), errNotConnected) })
	require.ErrorContains(w, consumer.Healthy(), "rabbitmqctl set_permissions")
}

// RabbitMQ refuses that with the same code as missing permissions.
func testExclusiveUse(w *world) {
	w.declare(true, nil)
	_, err := w.channel().Consume(w.queue, "other", false, true, false, false, nil)
	require.NoError(w, err)
	consumer := w.run(newSeen().count, nil)
	testenv.Eventually(w, patience, "a refusal", func() bool { return !errors.Is(consumer.Healthy(), errNotConnected) })
	require.ErrorContains(w, consumer.Healthy(), "403")
	require.ErrorContains(w, consumer.Healthy(), "another consumer has the queue for itself alone")
	require.NotContains(w, consumer.Healthy().Error(), "permissions")
}

func testWrongVirtualHost(w *world) {
	consumer := w.run(newSeen().count, func(o *ConsumerOptions) { o.URL = w.server.URL() + "nowhere" })
	testenv.Eventually(w, patience, "a refusal", func() bool { return !errors.Is(consumer.Healthy(), errNotConnected) })
	require.ErrorContains(w, consumer.Healthy(), "vhost nowhere not found")
}

func TestNewConsumer(t *testing.T) {
	t.Parallel()
	consumer, err := NewConsumer(ConsumerOptions{URL: "amqp://", Queue: "q", Prefetch: 1})
	require.NoError(t, err)
	require.ErrorContains(t, consumer.Healthy(), "has not started yet")
	for name, change := range map[string]func(*ConsumerOptions){
		"no URL":      func(o *ConsumerOptions) { o.URL = "" },
		"no queue":    func(o *ConsumerOptions) { o.Queue = "" },
		"no prefetch": func(o *ConsumerOptions) { o.Prefetch = 0 },
	} {
		options := ConsumerOptions{URL: "amqp://localhost/", Queue: "q", Prefetch: 1, Log: silent}
		_, err := NewConsumer(options)
		require.NoError(t, err)
		change(&options)
		_, err = NewConsumer(options)
		require.Error(t, err, name)
	}
}

// A server that says nothing, as one that is frozen, holds nobody up.
func TestStopWhileConnecting(t *testing.T) {
	t.Parallel()
	consumer, err := NewConsumer(ConsumerOptions{URL: "amqp://" + silentServer(t) + "/", Queue: "q", Prefetch: 1, Log: silent})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	began := time.Now()
	consumer.Run(ctx)
	require.Less(t, time.Since(began), connectTimeout)
}

func TestConnectTimeout(t *testing.T) {
	t.Parallel()
	publisher, err := NewPublisher(PublisherOptions{URL: "amqp://" + silentServer(t) + "/?connection_timeout=200", Log: silent})
	require.NoError(t, err)
	defer publisher.Close()
	require.ErrorIs(t, publisher.Check(t.Context()), errConnectTimeout)
}

// testStream: a consumer without an offset would get only what comes from now on.
func testStream(w *world) {
	w.declare(true, amqp.Table{"x-queue-type": "stream"})
	w.put(amqp.Publishing{Body: []byte("past")})
	got := newSeen()
	log := &testenv.Log{}
	consumer := w.run(got.count, func(o *ConsumerOptions) { o.Log = slog.New(slog.NewTextHandler(log, nil)) })
	testenv.EventuallyNoError(w, patience, func() error {
		if err := consumer.Healthy(); err == nil || !strings.Contains(err.Error(), "is a stream") {
			return fmt.Errorf("healthy: %w", err)
		}
		return nil
	})
	require.ErrorContains(w, consumer.Healthy(), "let rabbitmq.queue name a classic or quorum queue")
	w.put(amqp.Publishing{Body: []byte("now")})
	testenv.Eventually(w, patience, "a second refusal", func() bool { return strings.Count(log.String(), "is a stream") >= 2 })
	_, calls, _, _ := got.counts()
	require.Zero(w, calls)

	_, err := w.channel().QueueDelete(w.queue, false, false, false)
	require.NoError(w, err)
	w.putNumbers(3)
	got.waitForBodies(w, 3)
	require.NoError(w, consumer.Healthy())
}

// testQuorumQueue: it counts how often it has delivered a message.
func testQuorumQueue(w *world) {
	w.declare(true, amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": 0})
	w.put(amqp.Publishing{Body: []byte("0")}, amqp.Publishing{Body: []byte("1")})
	got := newSeen()
	w.run(got.count, nil)
	got.waitForBodies(w, 2)
	w.requireReady(0)
	_, calls, _, _ := got.counts()
	require.Equal(w, 2, calls)
}

func TestServersThatRefuseOffsets(t *testing.T) {
	t.Parallel()
	for version, refuses := range map[string]bool{"3.10.8": true, "3.13.7": true, "4.0.2": true, "4.2.0-rc.1": true, "3.9.29": false, "3.8.0": false, "": false, "next": false} {
		require.Equal(t, refuses, refusesOffsets(amqp.Table{"product": "RabbitMQ", "version": version}), version)
	}
	require.False(t, refusesOffsets(amqp.Table{"product": "LavinMQ", "version": "4.0.0"}))
	require.False(t, refusesOffsets(nil))
}
