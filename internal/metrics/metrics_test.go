package metrics_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	"pushq/internal/limiter"
	"pushq/internal/metrics"
	"pushq/internal/redisconn"
	"pushq/internal/testenv"
	"pushq/tasks"
)

var oneQueue = []tasks.QueueStats{{
	Queue: "swrve", Tasks: map[asynq.TaskState]int64{asynq.TaskStatePending: 7}, Paused: true,
	Oldest: 90 * time.Second, ActiveWithoutLease: 2,
}}

func TestAScrapeIsAnsweredWhateverIsMissing(t *testing.T) {
	t.Parallel()
	memory := redisconn.Memory{Used: 10, Max: 20}
	fault := errors.New("redis: connection refused")
	for name, test := range map[string]struct {
		queues                    func(context.Context) ([]tasks.QueueStats, error)
		memory                    func(context.Context) (redisconn.Memory, error)
		hasQueue, hasMemory       bool
		queueErrors, memoryErrors float64
		logged                    string
	}{
		"all well": {
			queues:   func(context.Context) ([]tasks.QueueStats, error) { return oneQueue, nil },
			memory:   func(context.Context) (redisconn.Memory, error) { return memory, nil },
			hasQueue: true, hasMemory: true,
		},
		"one queue": {
			queues:   func(context.Context) ([]tasks.QueueStats, error) { return oneQueue, fault },
			memory:   func(context.Context) (redisconn.Memory, error) { return memory, nil },
			hasQueue: true, hasMemory: true, queueErrors: 1, logged: "connection refused",
		},
		"memory is not told": {
			queues:   func(context.Context) ([]tasks.QueueStats, error) { return oneQueue, nil },
			memory:   func(context.Context) (redisconn.Memory, error) { return redisconn.Memory{}, redisconn.ErrUntold },
			hasQueue: true,
		},
		"panics": {
			queues:      func(context.Context) ([]tasks.QueueStats, error) { panic("boom") },
			memory:      func(context.Context) (redisconn.Memory, error) { panic("boom") },
			queueErrors: 1, memoryErrors: 1, logged: "panic: boom",
		},
		"nothing answers": {
			queues:      func(ctx context.Context) ([]tasks.QueueStats, error) { <-ctx.Done(); return nil, ctx.Err() },
			memory:      func(ctx context.Context) (redisconn.Memory, error) { <-ctx.Done(); return memory, ctx.Err() },
			queueErrors: 1, memoryErrors: 1, logged: "deadline exceeded",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			m := metrics.New("1.2.3", slog.New(slog.NewTextHandler(&log, nil)))
			m.FollowStore(metrics.Store{Queues: test.queues, Memory: test.memory})
			started := time.Now()
			first := testenv.ScrapeHandler(t, m.Handler())
			require.Less(t, time.Since(started), time.Minute, "bounded")
			// A fault of a scrape is seen in the next one.
			series := testenv.ScrapeHandler(t, m.Handler()).Series
			require.Equal(t, test.hasQueue, strings.Contains(first.Text, "pushq_queue_tasks"))
			require.Equal(t, test.hasMemory, strings.Contains(first.Text, "pushq_redis_memory_bytes"))
			if test.hasQueue {
				require.Equal(t, 7.0, series[`pushq_queue_tasks{queue="swrve",state="pending"}`])
				require.Equal(t, 90.0, series[`pushq_queue_oldest_seconds{queue="swrve"}`])
				require.Equal(t, 1.0, series[`pushq_queue_paused{queue="swrve"}`])
				require.Equal(t, 2.0, series[`pushq_active_without_lease{queue="swrve"}`])
			}
			if test.hasMemory {
				require.Equal(t, 10.0, series["pushq_redis_memory_bytes"])
				require.Equal(t, 20.0, series["pushq_redis_memory_max_bytes"])
			}
			require.GreaterOrEqual(t, series[`pushq_scrape_errors_total{part="queues"}`], test.queueErrors)
			require.GreaterOrEqual(t, series[`pushq_scrape_errors_total{part="memory"}`], test.memoryErrors)
			if test.logged == "" {
				require.Empty(t, log.String())
			} else {
				require.Contains(t, log.String(), test.logged)
				require.Equal(t, 1, strings.Count(log.String(), "\n"), "at most once a minute")
			}
		})
	}
}

func TestTheLimiterIsFollowedWhileThereIsOne(t *testing.T) {
	t.Parallel()
	m := metrics.New("1.2.3", slog.New(slog.DiscardHandler))
	var running *limiter.Limiter
	m.FollowLimiters(metrics.Limiter{Channel: "swrve", Configured: 4 * time.Millisecond, Current: func() *limiter.Limiter { return running }})
	series := testenv.ScrapeHandler(t, m.Handler()).Series
	require.Equal(t, 250.0, series[`pushq_ratelimit_configured_slots_per_second{channel="swrve"}`])
	require.NotContains(t, series, `pushq_ratelimit_slots_granted_total{channel="swrve"}`)

	server := testenv.StartRedis(t)
	running = limiter.Start(server.Client(t), limiter.Options{
		Keys: limiter.Keys{Pace: "{test}:pace", Brake: "{test}:brake", Override: "{test}:override"}, Delay: 4 * time.Millisecond, Log: slog.New(slog.DiscardHandler),
	})
	t.Cleanup(running.Stop)
	slot, err := running.Wait(t.Context(), limiter.Immediate)
	require.NoError(t, err)
	running.GiveBack(slot)
	_, err = running.Wait(t.Context(), limiter.Windowed)
	require.NoError(t, err)
	running.Drop()
	_, err = running.Throttled(t.Context(), limiter.Throttle{Pause: 9 * time.Second}) // one that is waited for
	require.NoError(t, err)
	go func() { _, _ = running.Wait(t.Context(), limiter.Resumed) }()

	testenv.Eventually(t, 5*time.Second, "the waiter to be counted", func() bool {
		series = testenv.ScrapeHandler(t, m.Handler()).Series
		return series[`pushq_ratelimit_waiting{channel="swrve",class="resumed"}`] == 1
	})
	require.Equal(t, 2.0, series[`pushq_ratelimit_slots_granted_total{channel="swrve"}`])
	require.Equal(t, 1.0, series[`pushq_ratelimit_slots_returned_total{channel="swrve"}`])
	require.GreaterOrEqual(t, series[`pushq_ratelimit_slots_dropped_total{channel="swrve"}`], 1.0)
	require.Equal(t, 1.0, series[`pushq_ratelimit_throttles_total{channel="swrve"}`])
	require.InDelta(t, 200, series[`pushq_ratelimit_slots_per_second{channel="swrve"}`], 20)
	require.InDelta(t, 5, series[`pushq_ratelimit_brake_seconds{channel="swrve"}`], 4.5)

	server.Stop()
	testenv.ScrapeHandler(t, m.Handler())
	series = testenv.ScrapeHandler(t, m.Handler()).Series
	require.NotContains(t, series, `pushq_ratelimit_slots_per_second{channel="swrve"}`)
	require.Contains(t, series, `pushq_ratelimit_slots_granted_total{channel="swrve"}`)
	require.Positive(t, series[`pushq_scrape_errors_total{part="pace"}`])
}

func TestTheVersionIsTold(t *testing.T) {
	t.Parallel()
	m := metrics.New("1.2.3", slog.New(slog.DiscardHandler))
	m.Gauge("pushq_example", "An example.", func() float64 { return 0.5 })
	scrape := testenv.ScrapeHandler(t, m.Handler())
	require.Contains(t, scrape.Text, `version="1.2.3"`)
	require.Equal(t, 0.5, scrape.Series["pushq_example"])
	require.Contains(t, scrape.Series, "go_goroutines")
	require.Contains(t, scrape.Series, "process_cpu_seconds_total")
}
