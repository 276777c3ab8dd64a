package main

import (
	"context"
	"sync"
	"time"

	"pushq/config"
	"pushq/internal/breaker"
	"pushq/tasks"
)

// The services that have a circuit breaker, as those who read its state know them.
const (
	fcmService      = "fcm"
	templateService = "template_service"
)

// guardedServices are all of them.
var guardedServices = []string{fcmService, templateService}

// breaker returns the circuit breaker that all workers share for a service.
func (s *service) breaker(service string, settings config.Breaker) *breaker.Breaker {
	return breaker.New(s.clients.Control, breaker.Options{
		Keys: breaker.Keys{
			Hash:         tasks.FCM.BreakerKey(service),
			Failing:      tasks.FCM.BreakerFailingKey(service),
			StateCopy:    "circuit:push_worker:" + service + ":state",
			FailuresCopy: "circuit:push_worker:" + service + ":failures",
		},
		Service:   service,
		Failures:  settings.Failures,
		OpenFor:   settings.OpenFor,
		Successes: settings.Successes,
		Forget:    permitForgotten,
		OnOpen:    s.metrics.BreakerOpens(service).Inc,
		Log:       s.log,
	})
}

// permitForgotten is after how long the calls of a process that has died, or stands still,
// keep others from making theirs.
const permitForgotten = 15 * time.Second

// renewPermits renews the permits of these breakers until stop is called.
func renewPermits(breakers ...*breaker.Breaker) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var renewing sync.WaitGroup
	for _, one := range breakers {
		renewing.Go(func() { one.Run(ctx) })
	}
	return func() {
		cancel()
		renewing.Wait()
	}
}
