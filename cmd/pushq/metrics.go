package main

import (
	"context"
	"errors"

	"pushq/internal/breaker"
	"pushq/internal/follow"
	"pushq/internal/metrics"
	"pushq/internal/redisconn"
	"pushq/tasks"
)

// newMetrics connects the metrics with what they are asked from. What the
// process counts as it happens is counted by those who have s.metrics.
func (s *service) newMetrics() *metrics.Metrics {
	m := metrics.New(version, s.log)
	m.Gauge("pushq_clock_offset_seconds", "How far Redis' clock is ahead of this host's.", func() float64 {
		return s.clock.Offset().Seconds()
	})
	m.Gauge("pushq_redis_round_trip_seconds", "The fastest round trip to Redis when the clocks were last compared.", func() float64 {
		return s.clock.RoundTrip().Seconds()
	})
	m.FollowStore(metrics.Store{
		Queues: func(ctx context.Context) ([]tasks.QueueStats, error) {
			var all []tasks.QueueStats
			var failures []error
			for _, c := range s.channels {
				stats, err := tasks.ReadQueueStats(ctx, s.clients.Read, c.Channel, s.clock.Now())
				all = append(all, stats...)
				failures = append(failures, err)
			}
			return all, errors.Join(failures...)
		},
		Memory: func(ctx context.Context) (redisconn.Memory, error) {
			return redisconn.ReadMemory(ctx, s.clients.Read)
		},
	})
	if s.accepts() {
		m.FollowAdmission(s.admission.Stats)
	}
	if s.settings.FCM.Enabled {
		s.followBreakers(m)
	}
	s.followFollowers(m)
	if s.consumer != nil {
		m.FollowConsumer(s.consumer)
	}
	if s.history != nil {
		m.FollowHistory(s.history)
	}
	if s.roles.worker {
		m.Gauge("pushq_workers_running", "1 while this process takes pushes from the queues.", func() float64 {
			if s.workersRunning.Load() {
				return 1
			}
			return 0
		})
		limiters := make([]metrics.Limiter, len(s.channels))
		for place, c := range s.channels {
			limiters[place] = metrics.Limiter{Channel: c.Name, Configured: c.delay, Current: c.limiter.Load}
		}
		m.FollowLimiters(limiters...)
		redisconn.CountErrors(s.clients.Queue, m.QueueErrors.Inc)
	}
	return m
}

func (s *service) followBreakers(m *metrics.Metrics) {
	hashes := make([]string, len(guardedServices))
	for place, service := range guardedServices {
		hashes[place] = tasks.FCM.BreakerKey(service)
	}
	m.FollowBreakers(tasks.FCM.Name, guardedServices, func(ctx context.Context) ([]breaker.Status, error) {
		return breaker.ReadStatuses(ctx, s.clients.Read, hashes...)
	})
}

// followFollowers tells of the followers that Redis knows: a stream that nobody reads any
// more is to be seen.
func (s *service) followFollowers(m *metrics.Metrics) {
	m.FollowFollowers(func(ctx context.Context) ([]metrics.Follower, error) {
		var followers []metrics.Follower
		var streams []string
		for _, c := range s.channels {
			known, err := tasks.ReadFollowers(ctx, s.clients.Read, c.Channel)
			if err != nil {
				return nil, err
			}
			for _, name := range known.Names() {
				followers = append(followers, metrics.Follower{Channel: c.Name, Name: name})
				streams = append(streams, c.FollowKey(name))
			}
		}
		if len(streams) == 0 {
			return nil, nil // and no rights on streams are needed
		}
		backlogs, err := follow.ReadBacklogs(ctx, s.clients.Read, streams, s.clock.Now())
		for place, backlog := range backlogs {
			followers[place].Backlog = backlog
		}
		return followers, err
	})
}
