package limiter

import (
	"context"
	"log/slog"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"pushq/internal/redistest"
	"pushq/internal/testenv"
)

// countingHook counts the commands that a client is asked for.
type countingHook struct{ commands *atomic.Int64 }

func (h countingHook) DialHook(next redis.DialHook) redis.DialHook { return next }
func (h countingHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		h.commands.Add(1)
		return next(ctx, cmd)
	}
}
func (h countingHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func processorTime(t testing.TB) time.Duration {
	var usage syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// Not parallel: it measures the processor time of the whole process.
func TestNothingToDoCostsNothing(t *testing.T) {
	waitOnce := func(t *testing.T, l *Limiter) {
		_, err := l.Wait(t.Context(), Immediate)
		require.NoError(t, err)
	}
	for name, prepare := range map[string]func(*testing.T, *testenv.Redis, *Limiter){
		"idle": func(t *testing.T, _ *testenv.Redis, l *Limiter) { waitOnce(t, l) },
		"long brake": func(t *testing.T, _ *testenv.Redis, l *Limiter) {
			requireThrottled(t, l, time.Minute)
		},
		"short brake, many waiting": func(t *testing.T, _ *testenv.Redis, l *Limiter) {
			requireThrottled(t, l, 9*time.Second)
			for range 100 {
				waitInBackground(t.Context(), l, Immediate)
			}
		},
		"stopped Redis, many waiting": func(t *testing.T, server *testenv.Redis, l *Limiter) {
			waitOnce(t, l)
			server.Stop()
			for range 100 {
				waitInBackground(t.Context(), l, Immediate)
			}
		},
		"frozen Redis, many waiting": func(t *testing.T, server *testenv.Redis, l *Limiter) {
			waitOnce(t, l)
			server.Freeze()
			for range 100 {
				waitInBackground(t.Context(), l, Immediate)
			}
		},
		"all have left": func(t *testing.T, _ *testenv.Redis, l *Limiter) {
			waitOnce(t, l)
			ctx, cancel := context.WithCancel(t.Context())
			for range 100 {
				waitInBackground(ctx, l, Windowed)
			}
			cancel()
			eventuallyWaiting(t, l, Windowed, 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := testenv.StartRedis(t)
			client := redistest.Connect(t, server.URL())
			hook := countingHook{new(atomic.Int64)}
			client.AddHook(hook)
			l := Start(client, Options{Keys: testKeys, Delay: 2 * time.Millisecond, Log: slog.New(slog.DiscardHandler)})
			defer l.Stop()
			prepare(t, server, l)
			time.Sleep(200 * time.Millisecond) // slots in hand are dropped
			commands, used := hook.commands.Load(), processorTime(t)
			time.Sleep(500 * time.Millisecond)
			require.Less(t, processorTime(t)-used, 50*time.Millisecond)
			require.Less(t, hook.commands.Load()-commands, int64(10))
		})
	}
}

// Not parallel: it counts the goroutines of the whole process.
func TestStopEndsItsGoroutines(t *testing.T) {
	server := testenv.StartRedis(t)
	client := redistest.Connect(t, server.URL())
	require.NoError(t, client.Ping(t.Context()).Err())
	before := runtime.NumGoroutine()
	for range 5 {
		l := Start(client, Options{Keys: testKeys, Delay: time.Millisecond, Log: slog.New(slog.DiscardHandler)})
		for range 20 {
			waitInBackground(t.Context(), l, Immediate)
		}
		_, err := l.Wait(t.Context(), Immediate)
		require.NoError(t, err)
		l.Stop()
	}
	testenv.Eventually(t, 5*time.Second, "its goroutines to end", func() bool { return runtime.NumGoroutine() <= before })
}

// An idle process announces its pace every five seconds.
func TestAnIdleProcessAnnouncesItself(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	client := server.Client(t)
	startLimiter(t, server.URL(), 20*time.Millisecond)
	testenv.Eventually(t, 2*time.Second, "the first announcement", func() bool {
		return client.HGet(t.Context(), paceKey, "delay").Val() == "20000"
	})
	require.NoError(t, client.Del(t.Context(), paceKey).Err())
	testenv.Eventually(t, 7*time.Second, "the next", func() bool {
		return client.HGet(t.Context(), paceKey, "delay").Val() == "20000"
	})
}
