// Package rabbitmq takes messages from a queue of RabbitMQ (Consumer) and puts messages
// into queues (Publisher), each at least once, whatever becomes of RabbitMQ and the
// network meanwhile.
package rabbitmq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// ConsumerOptions of a Consumer.
type ConsumerOptions struct {
	URL string // see CheckURL
	// Queue is made, durable, if there is none; one that exists is taken as it is, unless
	// it is a stream.
	Queue string
	// Prefetch is the number of messages in hand, at least 1: Handle runs for so many at
	// a time, and RabbitMQ keeps the others for whoever has room.
	Prefetch int
	// Handle makes a message safe. Only when it has returned nil, RabbitMQ may forget the
	// message; after an error, or a panic, it is called again, after 100 ms at first and
	// 30 s at last, and the message stays in hand. So a message may come twice, here or
	// in another process. Handle must return soon after its context has ended, and must
	// not change the body.
	Handle func(ctx context.Context, body []byte) error
	// Grace is how long a stop lets calls of Handle go on before it ends their contexts,
	// and a lost connection before another one is made. 0 is five seconds.
	Grace time.Duration
	// Overdue is how long a message may be in hand before Healthy says so. 0 is half a
	// minute.
	Overdue time.Duration
	Log     *slog.Logger
}

const (
	defaultGrace   = 5 * time.Second
	defaultOverdue = 30 * time.Second
	// steady is how long a connection has to last for the next one to be made after the
	// shortest pause.
	steady = 10 * time.Second
	// consumerTag names the consumer on its channel, which has no other.
	consumerTag = "pushq"
)

// Consumer takes messages from one queue. Its methods may be called concurrently, Run
// once at a time.
type Consumer struct {
	ConsumerOptions
	address address
	inHand  inHand

	mutex       sync.Mutex
	trouble     error // why no messages are taken, or nil
	connections int   // that messages were taken over so far
}

var (
	errNotConnected = errors.New("not connected to RabbitMQ")
	errNotStarted   = fmt.Errorf("%w, for taking messages has not started yet", errNotConnected)
)

// NewConsumer returns a consumer that does nothing before Run. Its errors do not quote
// the URL.
func NewConsumer(options ConsumerOptions) (*Consumer, error) {
	address, err := readAddress(options.URL)
	if err != nil {
		return nil, fmt.Errorf("the URL of RabbitMQ %w", err)
	}
	if options.Queue == "" || options.Prefetch < 1 {
		return nil, errors.New("a consumer needs the name of a queue, and a prefetch of at least 1")
	}
	options.Grace = cmp.Or(options.Grace, defaultGrace)
	options.Overdue = cmp.Or(options.Overdue, defaultOverdue)
	return &Consumer{ConsumerOptions: options, address: address, trouble: errNotStarted}, nil
}

// Run takes messages until ctx ends; when connections fail or end, it makes others. At
// the end it returns when no call of Handle is under way: messages that are not handled
// by then stay in the queue.
func (c *Consumer) Run(ctx context.Context) {
	c.setTrouble(errNotConnected)
	defer c.setTrouble(errNotConnected)
	for failures := 1; ; failures++ {
		lasted, err := c.consume(ctx)
		if ctx.Err() != nil {
			return
		}
		c.setTrouble(err)
		c.Log.Warn("no messages from RabbitMQ for now", slog.String("queue", c.Queue), slog.Any("error", err))
		if lasted >= steady {
			failures = 1
		}
		if !pause(ctx, failures) {
			return
		}
	}
}

// Healthy is nil while messages are taken, and otherwise says why not: with an
// *OverdueError if one is in hand for too long, which may be the first of many. It asks
// nobody.
func (c *Consumer) Healthy() error {
	if trouble := c.disconnected(); trouble != nil {
		return trouble
	}
	if longest, found := c.inHand.longest(); found {
		if waited := time.Since(longest.since); waited > c.Overdue {
			return &OverdueError{InHand: waited, Cause: longest.err}
		}
	}
	return nil
}

// Connected reports whether RabbitMQ sends messages, whatever becomes of them.
func (c *Consumer) Connected() bool { return c.disconnected() == nil }

func (c *Consumer) disconnected() error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.trouble
}

// OldestInHand is how long the message that has been in hand longest has been so; 0 without
// one.
func (c *Consumer) OldestInHand() time.Duration {
	longest, found := c.inHand.longest()
	if !found {
		return 0
	}
	return time.Since(longest.since)
}

// Reconnects counts the connections that messages were taken over after the first one.
func (c *Consumer) Reconnects() int {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return max(c.connections-1, 0)
}

func (c *Consumer) connected() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.trouble = nil
	c.connections++
}

func (c *Consumer) setTrouble(err error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.trouble = err
}

// consume takes messages over one connection until it or ctx ends, and returns how long
// that was.
func (c *Consumer) consume(ctx context.Context) (lasted time.Duration, err error) {
	var channel *amqp.Channel
	var deliveries <-chan amqp.Delivery
	connected, err := c.address.connect(ctx, "pushq: takes from "+c.Queue, func(connected *amqp.Connection) (err error) {
		channel, deliveries, err = c.subscribe(connected)
		return err
	})
	if err != nil {
		return 0, err
	}
	defer connected.end()
	closed := channel.NotifyClose(make(chan *amqp.Error, 1))
	began := time.Now()
	c.connected()
	c.Log.Info("taking messages from RabbitMQ", slog.String("queue", c.Queue), slog.Int("prefetch", c.Prefetch))

	h := newHandling(c)
	defer h.finish()
	for {
		select {
		case <-ctx.Done():
			// What has been sent to us and is not in hand yet is for others.
			_ = channel.Cancel(consumerTag, true)
			return time.Since(began), nil
		case delivery, open := <-deliveries:
			if !open {
				return time.Since(began), ended(closed)
			}
			h.begin(delivery)
		}
	}
}

func (c *Consumer) subscribe(connected *amqp.Connection) (*amqp.Channel, <-chan amqp.Delivery, error) {
	if err := declare(connected, c.Queue); err != nil {
		return nil, nil, err
	}
	if err := refuseStream(connected, c.Queue); err != nil {
		return nil, nil, err
	}
	channel, err := connected.Channel()
	if err != nil {
		return nil, nil, fmt.Errorf("open a channel: %w", err)
	}
	if err := channel.Qos(c.Prefetch, 0, false); err != nil {
		return nil, nil, fmt.Errorf("set the prefetch: %w", err)
	}
	deliveries, err := channel.Consume(c.Queue, consumerTag, false, false, false, false, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("consume from queue %s: %w", c.Queue, err)
	}
	return channel, deliveries, nil
}

// ended says why there are no deliveries any more.
func ended(closed <-chan *amqp.Error) error {
	select {
	case reason := <-closed:
		return lost(reason)
	default:
		return errors.New("RabbitMQ has ended the consumer: the queue was deleted, or moves to another node")
	}
}

func lost(reason *amqp.Error) error {
	if reason == nil {
		return errors.New("the connection to RabbitMQ has ended")
	}
	return fmt.Errorf("the connection to RabbitMQ is lost: %w", reason)
}
