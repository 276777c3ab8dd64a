package rabbitmq

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

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

// refuseStream returns an error if the queue is a stream. A consumer that says nothing of
// where it begins gets what comes from now on, without a word about what is there, and
// again after each reconnection.
//
// AMQP 0-9-1 does not tell what kind a queue is. But only a stream lets a consumer say
// where to begin; RabbitMQ refuses that for other queues since 3.10, before anything is
// delivered, and has a line about the refusal in its log.
func refuseStream(connected *amqp.Connection, queue string) error {
	if !refusesOffsets(connected.Properties) {
		return nil
	}
	channel, err := connected.Channel()
	if err != nil {
		return fmt.Errorf("open a channel: %w", err)
	}
	if err := channel.Qos(1, 0, false); err != nil { // a stream demands it
		return fmt.Errorf("set the prefetch: %w", err)
	}
	_, err = channel.Consume(queue, consumerTag, false, false, false, false, amqp.Table{"x-stream-offset": "next"})
	if err == nil {
		return fmt.Errorf("queue %s is a stream, of which pushq would get what comes from now on only: "+
			"let rabbitmq.queue name a classic or quorum queue, have messages sent there, and put those of the stream there, too", queue)
	}
	if connected.IsClosed() {
		return fmt.Errorf("ask whether queue %s is a stream: %w", queue, err)
	}
	return nil
}

// refusesOffsets reports whether the server is a RabbitMQ from 3.10 on.
func refusesOffsets(server amqp.Table) bool {
	if server["product"] != "RabbitMQ" {
		return false
	}
	version, _ := server["version"].(string)
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	majorNumber, err := strconv.Atoi(major)
	if err != nil {
		return false
	}
	minorNumber, err := strconv.Atoi(minor)
	return err == nil && (majorNumber > 3 || majorNumber == 3 && minorNumber >= 10)
}

func isNotFound(err error) bool {
	var refusal *amqp.Error
	return errors.As(err, &refusal) && refusal.Code == amqp.NotFound
}
