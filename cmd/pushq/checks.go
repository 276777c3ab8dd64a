package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"pushq/api"
	"pushq/internal/breaker"
	"pushq/internal/limiter"
	"pushq/tasks"
)

// What others know some of the parts as. A circuit breaker has the name of its service.
const (
	cacheService  = "cache_service" // Redis
	database      = "database"
	messageBroker = "message_broker"
)

// checks are what the health of this process is made of.
func (s *service) checks() []api.Check {
	checks := []api.Check{
		s.redisCheck(),
		{Name: "clock", Run: func(context.Context) error {
			if s.clock.Skewed() {
				return fmt.Errorf("this host's clock is %s off redis' clock", s.clock.Offset().Round(time.Millisecond))
			}
			return nil
		}},
		{Name: "queues", Run: s.checkPauses},
		{Name: "pace", Degrades: true, Run: s.checkBrakes},
	}
	if s.settings.FCM.Enabled {
		for _, service := range guardedServices {
			checks = append(checks, s.breakerCheck(service))
		}
	}
	if s.history != nil {
		checks = append(checks, s.historyCheck())
	}
	if s.consumer != nil {
		checks = append(checks, s.rabbitMQCheck())
	}
	if s.accepts() {
		checks = append(checks, api.Check{Name: "admission", Degrades: true, Run: func(context.Context) error {
			return s.admission.Refusing()
		}})
	}
	if s.roles.worker {
		checks = append(checks, api.Check{Name: "workers", Run: func(context.Context) error {
			if !s.workersRunning.Load() {
				return errors.New("the workers are not running")
			}
			return nil
		}})
	}
	return checks
}

// checkPauses tells of queues that somebody has paused, and when they go on.
func (s *service) checkPauses(ctx context.Context) error {
	var paused api.Paused
	endless := false
	for _, c := range s.channels {
		pauses, err := tasks.Pauses(ctx, s.clients.Read, c.Channel)
		if err != nil {
			return errors.New("redis does not tell whether queues are paused")
		}
		for _, pause := range pauses {
			paused.Queues = append(paused.Queues, pause.Queue)
			endless = endless || pause.Lasts == 0
			if until := s.clock.Now().Add(pause.Lasts); until.After(paused.Until) {
				paused.Until = until
			}
		}
	}
	if endless {
		paused.Until = time.Time{}
	}
	if len(paused.Queues) > 0 {
		return &paused
	}
	return nil
}

// checkBrakes tells of providers that have asked everybody to wait.
func (s *service) checkBrakes(ctx context.Context) error {
	var braked api.Braked
	for _, c := range s.channels {
		pace, err := limiter.ReadPace(ctx, s.clients.Read, paceKeys(c.Channel))
		if err != nil {
			return errors.New("redis does not tell the pace")
		}
		if pace.Brake > 0 {
			braked.Brakes = append(braked.Brakes, api.Brake{
				Channel: c.Name, Since: pace.BrakedSince, Until: s.clock.Now().Add(pace.Brake), Answer: pace.BrakedBy,
			})
		}
	}
	if len(braked.Brakes) > 0 {
		return &braked
	}
	return nil
}

func (s *service) redisCheck() api.Check {
	check := api.Check{Name: "redis", Run: func(ctx context.Context) error {
		// Not PING, which any master of a cluster answers.
		if err := s.clients.Read.Exists(ctx, tasks.Swrve.PaceKey()).Err(); err != nil {
			return errors.New("redis does not answer")
		}
		if !s.redisChecked.Load() {
			return errors.New("redis has not been checked yet, or has been found unfit: see the log")
		}
		return nil
	}}
	if s.settings.FCM.Enabled {
		check.Also = cacheService
	}
	return check
}

// breakerCheck shows what all workers know about a service. While it does not work, pushes
// wait; nobody can do anything by turning away from this process.
func (s *service) breakerCheck(service string) api.Check {
	return api.Check{Name: service, Degrades: true, Run: func(ctx context.Context) error {
		statuses, err := breaker.ReadStatuses(ctx, s.clients.Read, tasks.FCM.BreakerKey(service))
		if err != nil {
			return errors.New("redis does not tell the state of the circuit breaker")
		}
		return &api.Circuit{Status: statuses[0]}
	}}
}

// historyCheck asks PostgreSQL, without which the history comes late.
func (s *service) historyCheck() api.Check {
	return api.Check{Name: database, Degrades: true, Run: func(ctx context.Context) error {
		if err := s.history.Check(ctx); err != nil {
			return fmt.Errorf("nothing can be written to postgresql: %w", err)
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
