package main

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"pushq/internal/limiter"
	"pushq/internal/metrics"
	"pushq/tasks"
)

// A channel is what this process has for one destination of pushes.
type channel struct {
	tasks.Channel
	concurrency int           // of each queue
	delay       time.Duration // between two requests

	records  *tasks.Records // of the workers
	reader   *tasks.Reader
	intake   *tasks.Intake
	operator *tasks.Operator

	startWorkers func(*time.Location) (*workforce, error)
	running      *workforce // nil while no workers run, as is the limiter
	limiter      atomic.Pointer[limiter.Limiter]
}

// channels are those that this process serves, swrve first.
type channels []*channel

// concurrency is the number of pushes that this process works on at a time.
func (s *service) concurrency() int {
	if !s.roles.worker {
		return 0
	}
	total := len(tasks.Swrve.Queues()) * s.settings.Swrve.EffectiveConcurrency()
	if s.settings.FCM.Enabled {
		total += len(tasks.FCM.Queues()) * s.settings.FCM.Concurrency
	}
	return total
}

// served are the channels of this installation.
func (s *service) served() []tasks.Channel {
	if s.settings.FCM.Enabled {
		return []tasks.Channel{tasks.Swrve, tasks.FCM}
	}
	return []tasks.Channel{tasks.Swrve}
}

func (s *service) openChannels(retention tasks.Retention, zone *time.Location) {
	open := func(of tasks.Channel, concurrency int, delay time.Duration, startWorkers func(*time.Location) (*workforce, error)) {
		followers := s.followers(of)
		c := &channel{Channel: of, concurrency: concurrency, delay: delay, startWorkers: startWorkers}
		c.records = tasks.NewRecords(s.clients.Records, of, retention)
		c.records.Followers = followers
		c.reader = tasks.NewReader(s.clients.Read, of, tasks.NewRecords(s.clients.Read, of, retention))
		c.intake = tasks.NewIntake(s.clients.Intake, of, retention)
		c.operator = tasks.NewOperator(s.clients.Read, of, retention, c.reader, zone, s.clock)
		c.operator.Followers = followers
		c.operator.Interrupted = tasks.InterruptedAfter(longestRequest(of, s.settings))
		s.channels = append(s.channels, c)
	}
	open(tasks.Swrve, s.settings.Swrve.EffectiveConcurrency(), s.settings.Swrve.Delay(), s.startSwrveWorkers)
	if s.settings.FCM.Enabled {
		open(tasks.FCM, s.settings.FCM.Concurrency, s.settings.FCM.Delay(), s.startFCMWorkers)
	}
}

// named returns the channel of that name, or nil.
func (c channels) named(name string) *channel {
	for _, one := range c {
		if one.Name == name {
			return one
		}
	}
	return nil
}

func (c channels) countCancelled(m *metrics.Metrics) {
	for _, one := range c {
		counts := m.Channel(one.Name)
		one.operator.OnCancelled = func() { counts.Finished(tasks.Cancelled) }
	}
}

// close returns when no call to Redis is under way.
func (c channels) close() {
	for _, one := range c {
		one.operator.Close()
		one.intake.Close()
	}
}

// stopWorkers stops all of them at once: each may be sending for a while.
func (c channels) stopWorkers() {
	var stopping sync.WaitGroup
	for _, one := range c {
		one.limiter.Store(nil)
		if one.running != nil {
			stopping.Go(one.running.stop)
		}
	}
	stopping.Wait()
	for _, one := range c {
		one.running = nil
	}
}

// Get finds a push in whichever channel has it.
func (c channels) Get(ctx context.Context, id string) (tasks.Report, error) {
	for _, one := range c {
		report, err := one.reader.Get(ctx, id)
		if !errors.Is(err, tasks.ErrNotFound) {
			return report, err
		}
	}
	return tasks.Report{}, tasks.ErrNotFound
}

// Retry finds a push in whichever channel has it, and retries it.
func (c channels) Retry(ctx context.Context, id string) error {
	return c.operate(func(one *channel) error { return one.operator.Retry(ctx, id) })
}

// Cancel finds a push in whichever channel has it, and cancels it.
func (c channels) Cancel(ctx context.Context, id string) error {
	return c.operate(func(one *channel) error { return one.operator.Cancel(ctx, id) })
}

func (c channels) operate(act func(*channel) error) error {
	for _, one := range c {
		if err := act(one); !errors.Is(err, tasks.ErrNotFound) {
			return err
		}
	}
	return tasks.ErrNotFound
}

// of lists the channels; the API asks for no others.
func (c channels) of() []tasks.Channel {
	all := make([]tasks.Channel, len(c))
	for place, one := range c {
		all[place] = one.Channel
	}
	return all
}

// List lists the pushes of a channel.
func (c channels) List(ctx context.Context, of tasks.Channel, state tasks.State, limit int, cursor string) (tasks.Page, error) {
	return c.named(of.Name).reader.List(ctx, state, limit, cursor)
}

// Count counts the pushes of a channel.
func (c channels) Count(ctx context.Context, of tasks.Channel) ([]tasks.Count, error) {
	return c.named(of.Name).reader.Count(ctx)
}

// RetryAll retries pushes of a channel.
func (c channels) RetryAll(ctx context.Context, of tasks.Channel, filter tasks.Filter, limit int, cursor string) (tasks.Bulk, error) {
	return c.named(of.Name).operator.RetryAll(ctx, filter, limit, cursor)
}

// CancelAll cancels pushes of a channel.
func (c channels) CancelAll(ctx context.Context, of tasks.Channel, filter tasks.Filter, limit int, cursor string) (tasks.Bulk, error) {
	return c.named(of.Name).operator.CancelAll(ctx, filter, limit, cursor)
}
