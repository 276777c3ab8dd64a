package main

import (
	"context"
	"fmt"
	"log/slog"
	"syscall"
	"time"

	"pushq/config"
	"pushq/handlers"
	"pushq/handlers/swrve"
	"pushq/internal/limiter"
	"pushq/scheduler"
	"pushq/tasks"
)

// recordingTime is what a handler may need after its send to record the outcome.
const recordingTime = 5 * time.Second

// runWorkers keeps the workers running until ctx ends, except while this host's
// clock cannot be trusted: asynq's leases and schedules use it.
func (s *service) runWorkers(ctx context.Context, measured <-chan struct{}, zone *time.Location) error {
	for ctx.Err() == nil {
		if s.clock.Skewed() {
			now := s.hostClock()
			s.log.Error("this host's clock is off, taking no pushes until it is right",
				slog.Time("host", now), slog.Time("redis", now.Add(s.clock.Offset())))
			select {
			case <-measured:
			case <-ctx.Done():
			}
			continue
		}
		err := s.startWorkers(zone)
		if err == nil {
			s.workersRunning.Store(true)
		}
		for err == nil && ctx.Err() == nil && !s.clock.Skewed() {
			select {
			case <-measured:
			case <-ctx.Done():
			}
		}
		s.workersRunning.Store(false)
		s.channels.stopWorkers()
		if err != nil {
			return err
		}
	}
	return nil
}

// startWorkers starts those of every channel. Also with an error, those that have
// started must be stopped.
func (s *service) startWorkers(zone *time.Location) error {
	s.warnOfFewDescriptors()
	for _, c := range s.channels {
		running, err := c.startWorkers(zone)
		if err != nil {
			return fmt.Errorf("start the workers of %s: %w", c.Name, err)
		}
		c.running = running
		c.limiter.Store(running.limiter)
	}
	return nil
}

// A workforce is everything that delivers the pushes of one channel in this process.
type workforce struct {
	provider interface{ Close() }
	limiter  *limiter.Limiter
	delivery *handlers.Delivery
	servers  *handlers.Servers
	renewing func() // stops that of the circuit breakers' permits; nil without breakers
}

func (s *service) startSwrveWorkers(zone *time.Location) (*workforce, error) {
	c := s.channels.named(tasks.Swrve.Name)
	settings := s.settings.Swrve
	concurrency := settings.EffectiveConcurrency()
	pollers := max(int(settings.Pollers), 1) // one fetches as many at a time as can be handled

	if len(settings.MessagePrototypePushKeys) == 0 {
		s.log.Warn("swrve.messagePrototypePushKeys is empty: every push for Swrve will end FAILED")
	}
	provider := swrve.New(swrve.Config{
		URL:                settings.URL,
		Timeout:            settings.Timeout(),
		Test:               settings.Test,
		Connections:        len(tasks.Swrve.Queues()) * concurrency,
		RetryStatuses:      settings.RetryStatuses,
		RetryNetworkErrors: settings.RetryNetworkErrors,
		MaxRetryAfter:      settings.MaxRetryAfter,
		PushKeys:           revealPushKeys(s.settings.Swrve.MessagePrototypePushKeys),
	})
	pace := limiter.Start(s.clients.Control, limiter.Options{Keys: paceKeys(tasks.Swrve), Delay: settings.Delay(), Log: s.log})
	options := handlers.Options{
		Channel:     tasks.Swrve,
		MaxAttempts: s.settings.Push.Retry.MaxAttempts,
		Policy:      scheduler.FixedDelay{Delay: s.settings.Push.Retry.Delay()},
		Timeout:     provider.MaxDuration(),
		Zone:        zone,
		Metrics:     s.metrics.Channel(tasks.Swrve.Name),
		Tracer:      s.tracer,
		Log:         s.log,
	}
	if settings.OnRefused == config.Wait {
		options.Pause = s.pauseOnRefusal(tasks.Swrve)
	}
	delivery := handlers.NewDelivery(options, provider, c.records, pace, c.reader, s.clock)
	servers, err := handlers.StartServers(s.clients.Queue, s.clients.Records, delivery, handlers.ServersOptions{
		Channel:         tasks.Swrve,
		Concurrency:     concurrency,
		Pollers:         pollers,
		RetryInterval:   s.settings.Push.Retry.Delay(),
		ShutdownTimeout: provider.MaxDuration() + recordingTime,
		Completed:       delivery.Completed,
		OnFault:         s.metrics.QueueErrors.Inc,
		Log:             s.log,
	})
	running := &workforce{provider: provider, limiter: pace, delivery: delivery, servers: servers}
	if err != nil {
		running.stop()
		return nil, err
	}
	s.log.Info("workers running", slog.Int("concurrency", concurrency), slog.Int("pollers", pollers),
		slog.Duration("delay", settings.Delay()))
	return running, nil
}

// stop fetches nothing more, sends waiting pushes back to the queue, and
// returns when those being sent have been recorded.
func (w *workforce) stop() {
	w.servers.Stop()
	w.limiter.Stop()
	w.delivery.Stop()
	w.servers.Shutdown()
	w.delivery.Close()
	if w.renewing != nil {
		w.renewing()
	}
	w.provider.Close()
}

// warnOfFewDescriptors says at start what would otherwise show as failed
// attempts under load: "too many open files".
func (s *service) warnOfFewDescriptors() {
	const others = 200                           // connections to Redis and callers, at a guess
	needed := uint64(2*s.concurrency() + others) // a connection that is to be replaced stays open for a while
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err == nil && limit.Cur < needed {
		s.log.Warn("the limit of open files is low for this concurrency: raise it (ulimit -n), or lower swrve.concurrency or fcm.concurrency",
			slog.Uint64("limit", limit.Cur), slog.Uint64("needed", needed))
	}
}

func revealPushKeys(secrets map[string]map[string]config.Secret) map[string]map[string]string {
	revealed := make(map[string]map[string]string, len(secrets))
	for prototype, platforms := range secrets {
		keys := make(map[string]string, len(platforms))
		for platform, key := range platforms {
			keys[platform] = key.Reveal()
		}
		revealed[prototype] = keys
	}
	return revealed
}
