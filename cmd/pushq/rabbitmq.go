package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"pushq/internal/rabbitmq"
	"pushq/tasks"
)

// openRabbitMQ prepares the connections; nothing is dialled yet.
func (s *service) openRabbitMQ() error {
	settings := s.settings.RabbitMQ
	if settings.URL == "" || s.channels.named(tasks.FCM.Name) == nil || !s.roles.worker {
		return nil
	}
	var err error
	if s.publisher, err = rabbitmq.NewPublisher(rabbitmq.PublisherOptions{URL: settings.URL.Reveal(), Log: s.log}); err != nil {
		return fmt.Errorf("rabbitmq.url: %w", err)
	}
	s.consumer, err = rabbitmq.NewConsumer(rabbitmq.ConsumerOptions{
		URL: settings.URL.Reveal(), Queue: settings.Queue, Prefetch: settings.Prefetch, Handle: s.takeMessage, Log: s.log,
	})
	if err != nil {
		return fmt.Errorf("rabbitmq.url: %w", err)
	}
	return nil
}

// takeMessage makes a message safe: as a push in Redis, or in the queue of failures if
// it cannot be read. While neither can be reached, its error keeps it in hand.
func (s *service) takeMessage(ctx context.Context, body []byte, _ map[string]any) error {
	notification, err := tasks.ParseNotification(body)
	var wrong *tasks.InvalidNotificationError
	if errors.As(err, &wrong) {
		return s.publisher.Publish(ctx, s.settings.RabbitMQ.FailedQueue, rabbitmq.FailedMessage(body, err.Error(), time.Now()))
	}
	if err != nil {
		return err
	}
	intake := &checkedIntake{intake: s.channels.named(tasks.FCM.Name).intake, service: s}
	_, replayed, err := intake.Notify(ctx, notification, body, s.clock.Now())
	switch {
	case err != nil:
		return err
	case replayed:
		s.metrics.Intake.Replayed.Inc()
	default:
		s.metrics.Intake.Received(false)
	}
	return nil
}
