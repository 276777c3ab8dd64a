package redisconn

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"pushq/internal/testenv"
)

func TestErrorsOfAClientAreCounted(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	queue := open(t, server.URL()).Queue
	var counted atomic.Int64
	CountErrors(queue, func() { counted.Add(1) })
	ctx := t.Context()

	require.ErrorIs(t, queue.Get(ctx, "missing").Err(), redis.Nil)
	require.NoError(t, redis.NewScript("return 1").Run(ctx, queue, nil).Err(), "after NOSCRIPT")
	_, err := queue.Pipelined(ctx, func(pipe redis.Pipeliner) error { return pipe.Get(ctx, "missing").Err() })
	require.True(t, err == nil || errors.Is(err, redis.Nil))
	require.Zero(t, counted.Load())

	require.Error(t, queue.Do(ctx, "NOSUCHCOMMAND").Err())
	require.EqualValues(t, 1, counted.Load())
	server.Stop()
	require.Error(t, queue.Ping(ctx).Err())
	require.EqualValues(t, 2, counted.Load())
	_, err = queue.Pipelined(ctx, func(pipe redis.Pipeliner) error { pipe.Ping(ctx); return nil })
	require.Error(t, err)
	require.EqualValues(t, 3, counted.Load())
}
