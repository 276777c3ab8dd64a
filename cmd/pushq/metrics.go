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
			return tasks.ReadQueueStats(ctx, s.clients.Read, tasks.Swrve, s.clock.Now())
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
		m.FollowLimiter(tasks.Swrve.Name, s.settings.Swrve.Delay(), s.limiter.Load)
		redisconn.CountErrors(s.clients.Queue, m.QueueErrors.Inc)
	}
	return m
}
