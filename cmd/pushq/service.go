package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/time/rate"

	"pushq/api"
	"pushq/config"
	"pushq/internal/certificates"
	"pushq/internal/history"
	"pushq/internal/metrics"
	"pushq/internal/rabbitmq"
	"pushq/internal/redisconn"
	"pushq/internal/tracing"
	"pushq/scheduler"
	"pushq/tasks"
)

// roles are what a process does.
type roles struct {
	api, worker bool
}

// A service is one process that accepts pushes, delivers them, or both.
type service struct {
	settings    config.Config
	roles       roles
	name        string // of the process, as processName makes it
	redis       redisconn.Server
	checkServer bool // refuse a Redis that may lose pushes
	hostClock   func() time.Time
	log         *slog.Logger
	// listening is called with the address once it is known, if not nil.
	listening func(address string)

	tracer    *tracing.Tracer // nil if there are no spans
	metrics   *metrics.Metrics
	clients   *redisconn.Clients
	clock     *redisconn.Clock
	channels  channels
	publisher *rabbitmq.Publisher // these two are nil without RabbitMQ
	consumer  *rabbitmq.Consumer
	// refusedWarnings lets one of many messages that cannot be used stand for all.
	refusedWarnings *rate.Sometimes
	history         *history.Store // nil if none is kept
	admission       *tasks.Admission
	redisChecked    atomic.Bool
	workersRunning  atomic.Bool
}

// catchUpTimeout is enough for two archives as large as asynq lets them become.
const catchUpTimeout = 10 * time.Second

// run returns when ctx ends and everything has stopped, or when the service
// cannot work.
func (s *service) run(ctx context.Context) error {
	zone, err := scheduler.TimeZone(s.settings.Push.TimeZone)
	if err != nil {
		return fmt.Errorf("push.timeZone: %w", err)
	}
	if s.settings.Tracing.OTLPEndpoint != "" {
		s.tracer, err = tracing.Open(ctx, tracing.Options{
			Endpoint: s.settings.Tracing.OTLPEndpoint, Ratio: s.settings.Tracing.Ratio, Version: version, Log: s.log,
		})
		if err != nil {
			return fmt.Errorf("tracing.otlpEndpoint: %w", err)
		}
		defer s.tracer.Close()
	}
	if s.clients, err = s.redis.Open(s.concurrency()); err != nil {
		return err
	}
	defer s.close()
	s.name = processName(s.roles)
	retention := tasks.Retention(s.settings.Push.Retention)
	s.clock = redisconn.NewClock(s.clients.Read, s.hostClock)
	s.clock.Key = tasks.Swrve.PaceKey()
	s.admission = tasks.NewAdmission(s.clients.Read, s.served(), func(ctx context.Context) (float64, error) {
		memory, err := redisconn.ReadMemory(ctx, s.clients.Read)
		if errors.Is(err, redisconn.ErrUntold) {
			return 0, nil // then its own refusals are what there is to go by
		}
		return memory.Share(), err
	}, s.log)
	s.openChannels(retention, zone)
	defer s.channels.close()
	if err := s.openRabbitMQ(); err != nil {
		return err
	}
	if s.publisher != nil {
		defer s.publisher.Close()
	}
	if s.settings.History.PostgresURL != "" {
		if s.history, err = history.Open(ctx, s.settings.History.PostgresURL.Reveal(), s.historyLog()); err != nil {
			return fmt.Errorf("history.postgresUrl: %w", err)
		}
		defer s.history.Close()
	} else if s.settings.FCM.Enabled {
		s.log.Warn("history.postgresUrl is not set: there is no audit log of notifications")
	}
	s.metrics = s.newMetrics()
	s.channels.countCancelled(s.metrics)

	listener, err := s.listen()
	if err != nil {
		return err
	}
	var dashboard dashboard
	if s.roles.api {
		dashboard = openDashboard(s.clients, s.settings.Dashboard)
		defer func() {
			if err := dashboard.Close(); err != nil {
				s.log.Debug("closing the dashboard", slog.Any("error", err))
			}
		}()
	}
	server := s.newServer(dashboard, zone)

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	serving, served := context.WithCancel(context.WithoutCancel(ctx))
	defer served()
	var parts sync.WaitGroup
	parts.Go(func() {
		if err := server.Serve(listener); err != nil {
			cancel(err)
		}
	})
	parts.Go(func() {
		if err := s.work(ctx, serving, zone); err != nil {
			cancel(err)
		}
	})
	if s.history != nil {
		parts.Go(func() { s.prepareHistory(ctx) })
	}
	s.log.Info("http listening", slog.String("address", listener.Addr().String()))
	if s.listening != nil {
		s.listening(listener.Addr().String())
	}

	<-ctx.Done()
	cause := context.Cause(ctx)
	failed := !errors.Is(cause, context.Canceled)
	if failed {
		s.log.Error("cannot go on", slog.Any("error", cause))
	}
	s.log.Info("stopping: pushes being sent are finished, waiting ones go back to the queue")
	if delay := s.settings.HTTP.ShutdownDelay; s.roles.api && !failed && delay > 0 {
		server.Leave()
		s.log.Info("not ready any more, and accepting pushes for http.shutdownDelay", slog.Duration("delay", delay))
		time.Sleep(delay) // a second signal ends the process
	}
	stopErr := server.Stop()
	served()
	parts.Wait()
	s.log.Info("stopped")
	if failed {
		return cause
	}
	return stopErr
}

func (s *service) close() {
	if err := s.clients.Close(); err != nil {
		s.log.Debug("closing the connections to redis", slog.Any("error", err))
	}
}

// prepareHistory says at once what is wrong with the database, which holds nothing up: rows
// wait in Redis until they can be written.
func (s *service) prepareHistory(ctx context.Context) {
	if err := s.history.Check(ctx); err != nil && ctx.Err() == nil {
		s.historyLog().Warn("the history cannot be written for now, what is to be written waits in redis", slog.Any("error", err))
	}
}

func (s *service) historyLog() *slog.Logger {
	return s.log.With(slog.String("setting", "history.postgresUrl"))
}

// listen speaks HTTPS if there is a certificate.
func (s *service) listen() (net.Listener, error) {
	settings := s.settings.HTTP
	var encrypted *tls.Config
	if settings.TLS.Cert != "" {
		var err error
		if encrypted, err = certificates.Files(settings.TLS).Server(s.log); err != nil {
			return nil, fmt.Errorf("http.tls: %w", err)
		}
	}
	listener, err := net.Listen("tcp", settings.Listen)
	if err != nil {
		return nil, explainListen(settings.Listen, err)
	}
	if encrypted != nil {
		listener = tls.NewListener(listener, encrypted)
	}
	return listener, nil
}

func explainListen(address string, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("address %s is in use: choose another one with --listen, such as --listen 127.0.0.1:8081", address)
	}
	return fmt.Errorf("listen on %s: %w", address, err)
}

func (s *service) newServer(dashboard dashboard, zone *time.Location) *api.Server {
	options := api.Options{
		Clock:         s.clock,
		Checks:        s.checks(),
		Metrics:       s.metrics,
		APIKeys:       make(map[string]string, len(s.settings.HTTP.APIKeys)),
		AnyHost:       s.settings.HTTP.AnyHost(),
		MaxBodyBytes:  s.settings.HTTP.MaxBodyBytes,
		MaxBatchBytes: s.settings.HTTP.MaxBatchBytes,
		Zone:          zone,
		MaxSchedule:   time.Duration(s.settings.Push.MaxScheduleDays) * 24 * time.Hour,
		Mapped: func(prototype, platform string) bool {
			return s.settings.Swrve.MessagePrototypePushKeys[prototype][platform] != ""
		},
		RedisTimeout: s.redis.Patience, // of a caller, if it is set
		Tracer:       s.tracer,
		Log:          s.log,
	}
	for name, key := range s.settings.HTTP.APIKeys {
		options.APIKeys[name] = key.Reveal()
	}
	if s.roles.api {
		options.Dashboard = api.Dashboard{
			Handler:  dashboard,
			Path:     dashboard.path,
			Origin:   dashboard.origin,
			Scripts:  dashboard.scripts(),
			User:     s.settings.Dashboard.User,
			Password: s.settings.Dashboard.Password.Reveal(),
		}
		options.Intake = &checkedIntake{intake: s.channels.named(tasks.Swrve.Name).intake, service: s}
		options.Reader = s.channels
		options.Channels = s.channels.of()
		options.Operator = &checkedOperator{operator: s.channels, service: s}
		if s.history != nil {
			options.History = s.history
		}
		if fcm := s.channels.named(tasks.FCM.Name); fcm != nil {
			options.Notifications = &checkedIntake{intake: fcm.intake, service: s}
		}
	}
	return api.New(options)
}

// work waits for Redis, then follows its clock and runs the workers, until ctx
// ends. What requests need goes on until serving ends.
func (s *service) work(ctx, serving context.Context, zone *time.Location) error {
	if err := s.connect(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	if s.watchesAdmission() {
		if err := s.admission.Check(ctx); err != nil {
			s.log.Warn("redis", slog.Any("error", err))
		}
	}
	s.redisChecked.Store(true)
	s.log.Info("ready", slog.Duration("round_trip", s.clock.RoundTrip()), slog.Duration("clock_offset", s.clock.Offset()))

	var following sync.WaitGroup
	defer following.Wait()
	measured := make(chan struct{}, 1)
	watch := newOperatorWatch(s.clients.Read, s.channels.of(), s.log)
	following.Go(func() {
		defer s.leave()
		if err := watch.look(serving); err != nil && serving.Err() == nil {
			s.log.Warn("redis", slog.Any("error", redisconn.Explain(err)))
		}
		s.clock.Run(serving, func(err error) {
			if err == nil {
				err = s.checkAgain(serving)
			}
			if err == nil {
				err = watch.look(serving)
			}
			if err != nil && serving.Err() == nil {
				s.log.Warn("redis", slog.Any("error", redisconn.Explain(err)))
			}
			select {
			case measured <- struct{}{}:
			default:
			}
		})
	})
	if s.watchesAdmission() {
		following.Go(func() { s.admission.Run(serving) })
	}
	if !s.roles.worker {
		<-ctx.Done()
		return nil
	}
	for _, c := range s.channels {
		caretaker := tasks.NewCaretaker(s.clients.Read, c.Channel, c.records, s.log)
		catchUp, done := context.WithTimeout(ctx, catchUpTimeout)
		caretaker.CatchUp(catchUp)
		done()
		following.Go(func() { caretaker.Run(ctx) })
	}
	following.Go(func() { s.follow(ctx) })
	if s.consumer != nil {
		following.Go(func() { s.consumer.Run(ctx) })
	}
	return s.runWorkers(ctx, measured, zone)
}

// watchesAdmission reports whether this process accepts pushes into a Redis that
// may run full: the embedded one has no limit.
func (s *service) watchesAdmission() bool { return s.accepts() && s.checkServer }

// accepts reports whether this process accepts pushes, by HTTP or from RabbitMQ.
func (s *service) accepts() bool { return s.roles.api || s.consumer != nil }
