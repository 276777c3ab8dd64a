package redisconn

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"pushq/internal/testenv"
)

// count repeats a failing call as fast as it returns.
func count(during time.Duration, call func()) int {
	times := 0
	for end := time.Now().Add(during); time.Now().Before(end); times++ {
		call()
	}
	return times
}

func TestErrorsAreNotRepeatedAtOnce(t *testing.T) {
	t.Parallel()
	// Full from the start: a server needs more than this for itself.
	server := testenv.StartRedis(t, "--maxmemory", "1")
	queue := open(t, server.URL()).Queue
	script := redis.NewScript("return redis.call('SET', KEYS[1], '1')")
	require.NoError(t, script.Load(t.Context(), server.Client(t)).Err())
	times := count(time.Second, func() {
		err := script.EvalSha(t.Context(), queue, []string{"key"}).Err()
		require.ErrorContains(t, err, "OOM")
	})
	require.LessOrEqual(t, times, 11)
	require.Greater(t, times, 1)
}

func TestOrdinaryAnswersAreNotSlowedDown(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	queue := open(t, server.URL()).Queue
	notFound := redis.NewScript("return redis.error_reply('NOT FOUND')")
	for name, call := range map[string]func() error{
		"nil":       func() error { return queue.Get(t.Context(), "missing").Err() },
		"no script": func() error { return queue.EvalSha(t.Context(), "0123456789012345678901234567890123456789", nil).Err() },
		"not found": func() error { return notFound.Run(t.Context(), queue, nil).Err() },
		"good":      func() error { return queue.Ping(t.Context()).Err() },
	} {
		started := time.Now()
		for range 50 {
			err := call()
			require.Equal(t, name == "good", err == nil, name)
		}
		require.Less(t, time.Since(started), 50*pauseAfterError/2, name)
	}
}

func TestOnlyTheQueueIsSlowedDown(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	clients := open(t, server.URL())
	require.NoError(t, clients.Read.Set(t.Context(), "string", "text", 0).Err())
	for name, client := range clients.each() {
		started := time.Now()
		for range 10 {
			require.ErrorContains(t, client.LPop(t.Context(), "string").Err(), "WRONGTYPE", name)
		}
		if name == "queue" {
			require.GreaterOrEqual(t, time.Since(started), 10*pauseAfterError)
		} else {
			require.Less(t, time.Since(started), 10*pauseAfterError, name)
		}
	}
}

func TestThePauseEndsWithTheContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	refuse := errorPause{}.ProcessHook(func(context.Context, redis.Cmder) error {
		cancel()
		return context.Canceled
	})
	started := time.Now()
	require.ErrorIs(t, refuse(ctx, redis.NewStatusCmd(ctx, "ping")), context.Canceled)
	require.Less(t, time.Since(started), pauseAfterError)
}
