package main

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"pushq/config"
	"pushq/handlers"
	"pushq/handlers/fcm"
	"pushq/internal/breaker"
	"pushq/internal/limiter"
	"pushq/internal/template"
	"pushq/scheduler"
	"pushq/tasks"
)

// startFCMWorkers starts what delivers the pushes to Firebase.
func (s *service) startFCMWorkers(zone *time.Location) (*workforce, error) {
	c, settings := s.channels.named(tasks.FCM.Name), s.settings.FCM
	firebase, texts := s.breaker(fcmService, settings.Breaker), s.breaker(templateService, settings.Breaker)
	templates := template.NewClient(template.Options{
		URL:     s.settings.Template.URL,
		Timeout: time.Duration(s.settings.Template.TimeoutMillis) * time.Millisecond,
		Tries:   s.settings.Template.Tries,
		Backoff: templateBackoff,
		Breaker: texts,

		OnRequest: s.metrics.Templates.Requested,
	})
	cached := template.NewCache(templates, s.settings.Template.Fresh, s.settings.Template.Stale)
	cached.OnLookup = s.metrics.Templates.LookedUp
	provider, err := fcm.New(fcm.Options{
		Mode:           settings.Mode,
		URL:            settings.URL,
		Project:        settings.Project,
		ServiceAccount: []byte(settings.ServiceAccount.Reveal()),
		ServerKey:      settings.ServerKey.Reveal(),
		Timeout:        settings.Timeout(),
		Connections:    len(tasks.FCM.Queues()) * settings.Concurrency,
		MaxRetryAfter:  settings.MaxRetryAfter,
		DropMalformed:  settings.DropMalformed,
		DeadLetter:     settings.Breaker.OnOpen == config.DeadLetter,
		Templates:      cached,
		OnTokenFetch:   s.metrics.TokenFetch,
		Log:            s.log,
	})
	if err != nil {
		return nil, err
	}
	pace := limiter.Start(s.clients.Control, limiter.Options{Keys: paceKeys(tasks.FCM), Delay: settings.Delay(), Log: s.log})
	delivery := handlers.NewDelivery(handlers.Options{
		Channel:     tasks.FCM,
		MaxAttempts: settings.Retry.MaxAttempts,
		Policy: scheduler.Exponential{
			First: settings.Retry.First, Floor: settings.Retry.Floor, Cap: settings.Retry.Cap, Jitter: settings.Retry.Jitter,
		},
		Timeout:    provider.MaxDuration(),
		Breaker:    firebase,
		DeadLetter: settings.Breaker.OnOpen == config.DeadLetter,
		Zone:       zone,
		Metrics:    s.metrics.Channel(tasks.FCM.Name),
		Tracer:     s.tracer,
		Log:        s.log,
	}, provider, c.records, pace, c.reader, s.clock)
	servers, err := handlers.StartServers(s.clients.Queue, s.clients.Records, delivery, handlers.ServersOptions{
		Channel:         tasks.FCM,
		Concurrency:     settings.Concurrency,
		Pollers:         1,
		RetryInterval:   settings.Retry.First,
		ShutdownTimeout: provider.MaxDuration() + recordingTime,
		Completed:       delivery.Completed,
		OnFault:         s.metrics.QueueErrors.Inc,
		Log:             s.log,
	})
	running := &workforce{
		provider: provider, limiter: pace, delivery: delivery, servers: servers,
		renewing: renewPermits(firebase, texts),
	}
	if err != nil {
		running.stop()
		return nil, err
	}
	s.log.Info("workers running", slog.String("channel", tasks.FCM.Name), slog.Int("concurrency", settings.Concurrency),
		slog.Duration("delay", settings.Delay()))
	return running, nil
}

// templateBackoff is the time before the second request for a template.
const templateBackoff = 200 * time.Millisecond

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
