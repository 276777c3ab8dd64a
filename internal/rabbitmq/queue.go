package rabbitmq

import (
	"errors"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"
)

// declare makes sure that the queue exists: one that does is taken as it is, whatever
// its arguments, and without the permission to configure it; else it is made, durable.
func declare(connected *amqp.Connection, queue string) error {
	if _, err := inspect(connected, queue); !isNotFound(err) {
		return err
	}
	channel, err := connected.Channel()
	if err != nil {
		return fmt.Errorf("open a channel: %w", err)
	}
	if _, err := channel.QueueDeclare(queue, true, false, false, false, nil); err != nil {
		return fmt.Errorf("declare queue %s: %w", queue, err)
	}
	return channel.Close()
}

// inspect looks at a queue, on a channel of its own: RabbitMQ closes the one on which
// somebody asks for a queue that does not exist.
func inspect(connected *amqp.Connection, queue string) (amqp.Queue, error) {
	channel, err := connected.Channel()
	if err != nil {
		return amqp.Queue{}, fmt.Errorf("open a channel: %w", err)
	}
	found, err := channel.QueueDeclarePassive(queue, true, false, false, false, nil)
	if err != nil {
		return amqp.Queue{}, fmt.Errorf("look at queue %s: %w", queue, err)
	}
	return found, channel.Close()
}

func isNotFound(err error) bool {
	var refusal *amqp.Error
	return errors.As(err, &refusal) && refusal.Code == amqp.NotFound
}
