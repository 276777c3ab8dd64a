package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// A link is one connection of a Publisher, with a channel whose messages are confirmed.
// When either has ended, the link is gone.
type link struct {
	*connection
	channel        *amqp.Channel
	confirmTimeout time.Duration
	running        *sync.WaitGroup

	gone   chan struct{}
	reason error // set before gone is closed

	questions chan returnQuestion

	mutex     sync.Mutex
	declared  map[string]bool
	alarm     string        // why RabbitMQ takes no messages, "" if it does
	alarmOver time.Time     // when it took messages again
	passage   chan struct{} // closed while it does
}

// returnQuestion asks whether RabbitMQ has returned a message; the answer is its reason.
type returnQuestion struct {
	messageID string
	answer    chan string
}

// What may keep RabbitMQ from confirming a message.
var (
	errUnconfirmed = errors.New("RabbitMQ does not confirm the message in time")
	errRefused     = errors.New("RabbitMQ refuses the message: the queue may be full")
	errWaiting     = errors.New("RabbitMQ has not confirmed the message yet")
)

func blocked(reason string) error {
	return fmt.Errorf("RabbitMQ takes no messages for now: %s", reason)
}

func openLink(ctx context.Context, p *Publisher) (*link, error) {
	l := &link{
		confirmTimeout: p.ConfirmTimeout, running: &p.running,
		gone: make(chan struct{}), questions: make(chan returnQuestion),
		declared: map[string]bool{}, passage: make(chan struct{}),
	}
	close(l.passage)
	connected, err := p.address.connect(ctx, "pushq: publishes", func(connected *amqp.Connection) (err error) {
		if l.channel, err = connected.Channel(); err != nil {
			return fmt.Errorf("open a channel: %w", err)
		}
		if err := l.channel.Confirm(false); err != nil {
			return fmt.Errorf("ask for confirmations: %w", err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	l.connection = connected
	closed := l.channel.NotifyClose(make(chan *amqp.Error, 1))
	// Without a buffer: what RabbitMQ returns has arrived in watch before the library
	// reads the confirmation, which comes after it.
	returned := l.channel.NotifyReturn(make(chan amqp.Return))
	blockings := connected.NotifyBlocked(make(chan amqp.Blocking, 1))
	l.running.Go(func() { l.watch(closed, returned, blockings) })
	return l, nil
}

// watch hears what RabbitMQ says unasked, until the link is gone.
func (l *link) watch(closed <-chan *amqp.Error, returned <-chan amqp.Return, blockings <-chan amqp.Blocking) {
	unroutable := map[string]string{}
	for {
		select {
		case reason := <-closed:
			l.reason = lost(reason)
			close(l.gone)
			l.end() // if only the channel was closed
			return
		case message, open := <-returned:
			if !open {
				returned = nil
				continue
			}
			unroutable[message.MessageId] = message.ReplyText
		case blocking, open := <-blockings:
			if !open {
				blockings = nil
				continue
			}
			l.setBlocked(blocking)
		case question := <-l.questions:
			question.answer <- unroutable[question.messageID]
			delete(unroutable, question.messageID)
		}
	}
}

func (l *link) isGone() bool {
	select {
	case <-l.gone:
		return true
	default:
		return false
	}
}

func (l *link) setBlocked(blocking amqp.Blocking) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	switch {
	case blocking.Active && l.alarm == "":
		l.alarm, l.passage = "it is "+blocking.Reason, make(chan struct{})
	case !blocking.Active && l.alarm != "":
		l.alarm, l.alarmOver = "", time.Now()
		close(l.passage)
	}
}

// blockedBy is why RabbitMQ takes no messages, "" if it does.
func (l *link) blockedBy() string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.alarm
}

// patient reports whether RabbitMQ has a reason to take longer: it takes no messages, or
// did not a moment ago.
func (l *link) patient() bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.alarm != "" || time.Since(l.alarmOver) < l.confirmTimeout
}

func (l *link) currentPassage() <-chan struct{} {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.passage
}

// publish publishes a message once. After any error but ErrUnroutable it may be tried
// again.
func (l *link) publish(ctx context.Context, queue string, message amqp.Publishing) error {
	if err := l.declare(ctx, queue); err != nil {
		return err
	}
	select {
	case <-l.currentPassage():
	case <-l.gone:
		return l.reason
	case <-ctx.Done():
		return blocked(l.blockedBy())
	}
	confirmation, err := l.channel.PublishWithDeferredConfirm("", queue, true, false, message)
	if err != nil {
		return fmt.Errorf("send the message: %w", err)
	}
	if err := l.awaitConfirmation(ctx, confirmation); err != nil {
		return err
	}
	reason, err := l.returned(message.MessageId)
	if err != nil {
		return err
	}
	if reason != "" {
		l.setDeclared(queue, false)
		return fmt.Errorf("%w: %s", ErrUnroutable, reason)
	}
	return nil
}

// awaitConfirmation waits longer while RabbitMQ is known to be short of memory or disk:
// it would be no faster over another connection.
func (l *link) awaitConfirmation(ctx context.Context, confirmation *amqp.DeferredConfirmation) error {
	timer := time.NewTimer(l.confirmTimeout)
	defer timer.Stop()
	for {
		select {
		case <-confirmation.Done():
			if confirmation.Acked() {
				return nil
			}
			// The library refuses what was not confirmed when the channel ends.
			if l.channel.IsClosed() {
				<-l.gone
				return l.reason
			}
			return errRefused
		case <-ctx.Done():
			return errWaiting
		case <-timer.C:
			if !l.patient() {
				l.cut()
				return errUnconfirmed
			}
			timer.Reset(l.confirmTimeout)
		}
	}
}

// returned asks whether a message whose confirmation has arrived was returned before.
func (l *link) returned(messageID string) (reason string, err error) {
	answer := make(chan string, 1)
	select {
	case l.questions <- returnQuestion{messageID, answer}:
		return <-answer, nil
	case <-l.gone:
		return "", l.reason
	}
}

// declare makes sure once that the queue exists.
func (l *link) declare(ctx context.Context, queue string) error {
	l.mutex.Lock()
	declared := l.declared[queue]
	l.mutex.Unlock()
	if declared {
		return nil
	}
	if err := l.call(ctx, func() error { return declare(l.Connection, queue) }); err != nil {
		return err
	}
	l.setDeclared(queue, true)
	return nil
}

func (l *link) setDeclared(queue string, declared bool) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.declared[queue] = declared
}

// call makes a call of the library, which knows no contexts. One that is abandoned ends
// with its answer or the link, and its result must not be used.
func (l *link) call(ctx context.Context, do func() error) error {
	result := make(chan error, 1)
	l.running.Go(func() { result <- do() })
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		if reason := l.blockedBy(); reason != "" {
			return blocked(reason)
		}
		return fmt.Errorf("RabbitMQ has not answered yet: %w", context.Cause(ctx))
	}
}
