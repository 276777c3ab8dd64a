package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"golang.org/x/time/rate"

	"pushq/internal/rabbitmq"
	"pushq/internal/tracing"
	"pushq/tasks"
)

// openRabbitMQ prepares the connections; nothing is dialled yet.
func (s *service) openRabbitMQ() error {
	settings := s.settings.RabbitMQ
	if settings.URL == "" || s.channels.named(tasks.FCM.Name) == nil || !s.roles.worker {
		return nil
	}
	s.refusedWarnings = &rate.Sometimes{Interval: time.Minute}
	log := s.log.With(slog.String("setting", "rabbitmq.url"))
	var err error
	if s.publisher, err = rabbitmq.NewPublisher(rabbitmq.PublisherOptions{URL: settings.URL.Reveal(), Log: log}); err != nil {
		return fmt.Errorf("rabbitmq.url: %w", err)
	}
	s.consumer, err = rabbitmq.NewConsumer(rabbitmq.ConsumerOptions{
		URL: settings.URL.Reveal(), Queue: settings.Queue, Prefetch: settings.Prefetch, Handle: s.takeMessage, Log: log,
	})
	if err != nil {
		return fmt.Errorf("rabbitmq.url: %w", err)
	}
	return nil
}

// publishTimeout is how long RabbitMQ may take for a message to the queue of failures,
// before the log says that it does not take it.
const publishTimeout = 10 * time.Second

// takeMessage makes a message safe: as a push in Redis, or in the queue of failures if
// it cannot be used. While neither can be reached, its error keeps it in hand.
func (s *service) takeMessage(ctx context.Context, body []byte) error {
	err := s.storeMessage(ctx, body)
	if isUnusable(err) {
		if err := s.publishFailure(ctx, rabbitmq.FailedMessage(body, err.Error(), time.Now())); err != nil {
			return err
		}
		s.metrics.RabbitMQ.Refused.Inc()
		s.refusedWarnings.Do(func() { s.warnOfUnusable(err) })
		return nil
	}
	return err
}

// isUnusable reports whether the same message would fail again, or would wait for another
// one to end.
func isUnusable(err error) bool {
	var wrong *tasks.InvalidNotificationError
	return errors.As(err, &wrong) || errors.Is(err, errPanic) ||
		errors.Is(err, tasks.ErrContentDiffers) || errors.Is(err, tasks.ErrUnusableKey)
}

func (s *service) warnOfUnusable(err error) {
	details := []any{slog.String("moved_to", s.settings.RabbitMQ.FailedQueue)}
	if errors.Is(err, tasks.ErrUnusableKey) { // of others not why: that may quote the message
		details = append(details, slog.Any("error", err))
	}
	s.log.Warn("a message cannot be used", details...)
}

var errPanic = errors.New("pushq has a bug, its log says more")

func (s *service) storeMessage(ctx context.Context, body []byte) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			s.log.Error("a message was not understood", slog.Any("panic", cause), slog.String("stack", string(debug.Stack())))
			err = errPanic
		}
	}()
	body = bytes.TrimPrefix(body, []byte("\uFEFF")) // some programs write a byte order mark, as in HTTP
	notification, err := tasks.ParseNotification(body)
	if err != nil {
		return err
	}
	intake := &checkedIntake{intake: s.channels.named(tasks.FCM.Name).intake, service: s}
	receiving := s.tracer.Receive(tracing.Trace{ID: notification.TraceID}, "receive "+s.settings.RabbitMQ.Queue, time.Now())
	defer receiving.End()
	notification.Trace = receiving.Trace()
	_, replayed, err := intake.Notify(ctx, notification, body, s.clock.Now())
	switch {
	case err != nil:
		s.metrics.Intake.NotReceived(err)
		receiving.Fail("not stored")
		return err
	case replayed:
		s.metrics.Intake.Replayed.Inc()
		s.metrics.RabbitMQ.Replayed.Inc()
	default:
		s.metrics.Intake.Received(false)
		s.metrics.RabbitMQ.Stored.Inc()
	}
	return nil
}

func (s *service) publishFailure(ctx context.Context, message []byte) error {
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	return s.publisher.Publish(ctx, s.settings.RabbitMQ.FailedQueue, message)
}
