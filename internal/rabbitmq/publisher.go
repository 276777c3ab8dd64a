package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
	amqp "github.com/rabbitmq/amqp091-go"
)

// PublisherOptions of a Publisher.
type PublisherOptions struct {
	URL string // see CheckURL
	// ConfirmTimeout is how long RabbitMQ may take to confirm a message before it is
	// published again over another connection. 0 is ten seconds.
	ConfirmTimeout time.Duration
	Log            *slog.Logger
}

const defaultConfirmTimeout = 10 * time.Second

// What Publish may return.
var (
	// ErrUnroutable means that the queue was deleted. The next call makes it again.
	ErrUnroutable = errors.New("the message has reached no queue")
	// ErrPublisherClosed means that Close was called before or meanwhile.
	ErrPublisherClosed = errors.New("the publisher is closed")
)

// Publisher puts messages into queues, over one connection that is made when it is
// needed, and again after it has ended. Its methods may be called concurrently.
type Publisher struct {
	PublisherOptions
	address address
	// running are goroutines of connections, and begin only in calls.
	running sync.WaitGroup
	calls   sync.WaitGroup
	ending  context.Context // ends with Close
	end     context.CancelFunc

	connecting chan struct{} // has room for who may use what follows
	link       *link         // the latest, or nil
	failures   int           // of connecting, in a row
	failed     error         // the latest of these
	retryAt    time.Time     // no connection is tried before

	mutex  sync.Mutex
	closed bool
}

// NewPublisher returns a publisher that is not connected yet. Its errors do not quote
// the URL.
func NewPublisher(options PublisherOptions) (*Publisher, error) {
	address, err := readAddress(options.URL)
	if err != nil {
		return nil, fmt.Errorf("the URL of RabbitMQ %w", err)
	}
	if options.ConfirmTimeout == 0 {
		options.ConfirmTimeout = defaultConfirmTimeout
	}
	p := &Publisher{PublisherOptions: options, address: address, connecting: make(chan struct{}, 1)}
	p.ending, p.end = context.WithCancel(context.Background())
	return p, nil
}

// Publish puts a message, which is JSON, into a queue and returns nil when RabbitMQ has
// it safe. The queue is made, durable, if there is none. While RabbitMQ is away, or does
// not confirm, Publish tries again until ctx ends: give it a deadline. After an error
// the message may be in the queue nevertheless, and after a lost connection it may be
// there twice, with the same message id.
func (p *Publisher) Publish(ctx context.Context, queue string, body []byte) error {
	ctx, done, err := p.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	message := amqp.Publishing{
		ContentType:  "application/json",
		DeliveryMode: amqp.Persistent,
		MessageId:    ulid.Make().String(),
		Timestamp:    time.Now(),
		Body:         body,
	}
	var before error
	for failures := 1; ; failures++ {
		err := p.try(ctx, queue, message)
		if err == nil {
			return nil
		}
		if errors.Is(err, ErrUnroutable) {
			return fmt.Errorf("publish to queue %s: %w", queue, err)
		}
		if !pause(ctx, failures) {
			if before != nil { // the last try was perhaps too short to learn much
				err = fmt.Errorf("%w; before that: %w", err, before)
			}
			return fmt.Errorf("publish to queue %s: %w (%w)", queue, context.Cause(ctx), err)
		}
		before = err
		p.Log.Debug("publishing a message again", slog.String("queue", queue), slog.Any("error", err))
	}
}

func (p *Publisher) try(ctx context.Context, queue string, message amqp.Publishing) error {
	link, err := p.connected(ctx)
	if err != nil {
		return err
	}
	return link.publish(ctx, queue, message)
}

// Check connects if there is no connection, and asks RabbitMQ for an answer. Its error
// says what is wrong, also while RabbitMQ takes no messages for want of memory or disk.
func (p *Publisher) Check(ctx context.Context) error {
	return p.ask(ctx, func(l *link) error {
		if reason := l.blockedBy(); reason != "" {
			return blocked(reason)
		}
		channel, err := l.Channel()
		if err != nil {
			return fmt.Errorf("open a channel: %w", err)
		}
		return channel.Close()
	})
}

// Depth is the number of messages in a queue that wait for a consumer; 0 if there is no
// such queue.
func (p *Publisher) Depth(ctx context.Context, queue string) (int, error) {
	depth := make(chan int, 1)
	err := p.ask(ctx, func(l *link) error {
		found, err := inspect(l.Connection, queue)
		depth <- found.Messages
		return err
	})
	if isNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return <-depth, nil
}

// Close ends all calls, with ErrPublisherClosed, and the connection.
func (p *Publisher) Close() {
	p.mutex.Lock()
	p.closed = true
	p.mutex.Unlock()
	p.end()
	p.calls.Wait()
	if p.link != nil {
		p.link.end()
	}
	p.running.Wait()
}

// begin counts a call, whose context ends with Close too.
func (p *Publisher) begin(ctx context.Context) (during context.Context, done func(), err error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.closed {
		return nil, nil, ErrPublisherClosed
	}
	p.calls.Add(1)
	during, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(p.ending, func() { cancel(ErrPublisherClosed) })
	return during, func() {
		stop()
		cancel(nil)
		p.calls.Done()
	}, nil
}

// ask lets RabbitMQ answer a question, which must be safe to abandon.
func (p *Publisher) ask(ctx context.Context, question func(*link) error) error {
	ctx, done, err := p.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	link, err := p.connected(ctx)
	if err != nil {
		return err
	}
	return link.call(ctx, func() error { return question(link) })
}

// connected returns the connection, or a new one if it is gone. Only one is made at a
// time, and after a failure none for a while, however many want it.
func (p *Publisher) connected(ctx context.Context) (*link, error) {
	select {
	case p.connecting <- struct{}{}:
		defer func() { <-p.connecting }()
	case <-ctx.Done():
		return nil, errNotConnected
	}
	if p.link != nil && !p.link.isGone() {
		return p.link, nil
	}
	if time.Now().Before(p.retryAt) {
		return nil, p.failed
	}
	link, err := openLink(ctx, p)
	if err != nil {
		if ctx.Err() != nil {
			return nil, err // no fault of RabbitMQ, perhaps
		}
		p.failures++
		p.failed, p.retryAt = err, backoff.After(p.failures, time.Now())
		if p.failures == 1 {
			p.Log.Warn("cannot publish to RabbitMQ for now", slog.Any("error", err))
		}
		return nil, err
	}
	p.link, p.failures = link, 0
	return link, nil
}
