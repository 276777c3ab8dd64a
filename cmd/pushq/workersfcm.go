package main

import (
	"log/slog"
	"time"

	"pushq/config"
	"pushq/handlers"
	"pushq/handlers/fcm"
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
		Timeout: s.settings.Template.Timeout(),
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
