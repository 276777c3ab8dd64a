package main

import (
	"context"
	"errors"
	"fmt"

	"pushq/api"
)

// The parts of the channel fcm's health, as its users know them. A circuit breaker has the
// name of its service.
const (
	cacheService  = "cache_service" // Redis
	database      = "database"
	messageBroker = "message_broker"
)

// breakerCheck shows what all workers know about a service. While it does not work, pushes
// wait; nobody can do anything by turning away from this process.
func (s *service) breakerCheck(service string) api.Check {
	shared := s.breaker(service, s.settings.FCM.Breaker)
	return api.Check{Name: service, Degrades: true, Run: func(ctx context.Context) error {
		state, _, err := shared.Read(ctx)
		if err != nil {
			return errors.New("redis does not tell the state of the circuit breaker")
		}
		return &api.Circuit{State: state}
	}}
}

// historyCheck asks PostgreSQL, without which the history comes late.
func (s *service) historyCheck() api.Check {
	return api.Check{Name: database, Degrades: true, Run: func(ctx context.Context) error {
		if err := s.history.Check(ctx); err != nil {
			return fmt.Errorf("postgresql does not answer: %w", err)
		}
		return nil
	}}
}

// rabbitMQCheck asks RabbitMQ, without which no messages come and failures are published
// late.
func (s *service) rabbitMQCheck() api.Check {
	return api.Check{Name: messageBroker, Degrades: true, Run: func(ctx context.Context) error {
		if err := s.publisher.Check(ctx); err != nil {
			return err
		}
		return s.consumer.Healthy()
	}}
}
