package main

import (
	"context"

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
			for _, c := range s.channels {
				stats, err := tasks.ReadQueueStats(ctx, s.clients.Read, c.Channel, s.clock.Now())
				if err != nil {
					return nil, err
				}
				all = append(all, stats...)
			}
			return all, nil
		},
		Memory: func(ctx context.Context) (redisconn.Memory, error) {
			return redisconn.ReadMemory(ctx, s.clients.Read)
		},
	})
	if s.roles.api {
		m.FollowAdmission(s.admission.Stats)
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
