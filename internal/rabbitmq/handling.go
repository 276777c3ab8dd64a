package rabbitmq

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// handling is what is in hand of one connection, at most the prefetch: RabbitMQ sends
// the next message when one is acknowledged.
type handling struct {
	*Consumer
	calls sync.WaitGroup

	calling      context.Context // of the calls of Handle
	endCalling   context.CancelFunc
	repeating    context.Context // lets failed calls be repeated
	endRepeating context.CancelFunc
}

func newHandling(c *Consumer) *handling {
	h := &handling{Consumer: c}
	h.calling, h.endCalling = context.WithCancel(context.Background())
	h.repeating, h.endRepeating = context.WithCancel(h.calling)
	return h
}

// begin handles a message in a goroutine of its own.
func (h *handling) begin(delivery amqp.Delivery) {
	h.calls.Go(func() {
		one := h.inHand.add()
		defer h.inHand.remove(one)
		if !h.untilDone(delivery, one) {
			return // RabbitMQ will give it to somebody else, or to us again
		}
		if err := delivery.Ack(false); err != nil {
			h.Log.Debug("a message that is done will come again", slog.String("queue", h.Queue), slog.Any("error", err))
		}
	})
}

// finish lets the calls that are under way end, and none begin. Messages whose calls
// fail now, or wait to be repeated, stay unacknowledged.
func (h *handling) finish() {
	h.endRepeating()
	late := time.AfterFunc(h.Grace, h.endCalling)
	h.calls.Wait()
	late.Stop()
	h.endCalling()
}

// untilDone calls Handle until it returns nil, or finish says not to go on.
func (h *handling) untilDone(delivery amqp.Delivery, one *held) bool {
	for failures := 1; ; failures++ {
		err := h.call(delivery)
		if err == nil {
			return true
		}
		h.inHand.failed(one, err)
		level := slog.LevelDebug
		if failures == 1 {
			level = slog.LevelWarn // one line for a message, however long it takes
		}
		h.Log.Log(h.calling, level, "a message cannot be taken for now", slog.String("queue", h.Queue), slog.Int("failures", failures), slog.Any("error", err))
		if !pause(h.repeating, failures) {
			return false
		}
	}
}

func (h *handling) call(delivery amqp.Delivery) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v\n%s", cause, debug.Stack())
		}
	}()
	return h.Handle(h.calling, delivery.Body)
}
