package redisconn

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/testenv"
)

func TestClockTellsRedisTime(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	for shift, skewed := range map[time.Duration]bool{
		0: false, time.Second: false, -time.Second: false,
		3 * time.Second: true, -3 * time.Second: true, 48 * time.Hour: true,
	} {
		clock := NewClock(server.Client(t), func() time.Time { return time.Now().Add(shift) })
		require.Zero(t, clock.Offset())
		require.Zero(t, clock.RoundTrip())
		earliest := time.Now().Add(shift)
		now := clock.Now()
		require.False(t, now.Before(earliest) || now.After(time.Now().Add(shift)), "before it has measured")
		require.NoError(t, clock.Measure(t.Context()))
		require.Positive(t, clock.RoundTrip())
		tolerance := clock.RoundTrip()/2 + 10*time.Millisecond
		require.InDelta(t, -shift, clock.Offset(), float64(tolerance))
		earliest = time.Now().Add(-tolerance)
		now = clock.Now()
		require.False(t, now.Before(earliest) || now.After(time.Now().Add(tolerance)))
		require.Equal(t, skewed, clock.Skewed(), shift)
	}
}

func TestSkewedBeyondTwoSeconds(t *testing.T) {
	t.Parallel()
	for offset, skewed := range map[time.Duration]bool{
		2 * time.Second: false, -2 * time.Second: false, 2*time.Second + 1: true, -2*time.Second - 1: true,
	} {
		require.Equal(t, skewed, (&Clock{offset: offset}).Skewed(), offset)
	}
}

// Half of the round trip belongs to the way there.
func TestClockTakesTheMiddleOfTheRoundTrip(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	proxy := testenv.NewProxy(t, server.Addr())
	proxy.SetLatency(200 * time.Millisecond)
	clock := NewClock(open(t, proxy.URL()).Read, time.Now)
	// A busy machine may hold up one of both ways, but not always.
	testenv.EventuallyNoError(t, time.Minute, func() error {
		require.NoError(t, clock.Measure(t.Context()))
		require.GreaterOrEqual(t, clock.RoundTrip(), 200*time.Millisecond)
		if offset := clock.Offset().Abs(); offset >= 80*time.Millisecond {
			return fmt.Errorf("the offset is %s", offset)
		}
		return nil
	})
}

func TestAFailedMeasurementKeepsTheLast(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	clock := NewClock(open(t, server.URL()).Read, func() time.Time { return time.Now().Add(time.Hour) })
	require.NoError(t, clock.Measure(t.Context()))
	offset := clock.Offset()
	server.Stop()
	require.Error(t, clock.Measure(t.Context()))
	require.Equal(t, offset, clock.Offset())
}

func TestRunEndsWithItsContext(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	clock := NewClock(open(t, server.URL()).Read, time.Now)
	ctx, cancel := context.WithCancel(t.Context())
	observed, ended := make(chan error, 10), make(chan struct{})
	go func() {
		defer close(ended)
		clock.Run(ctx, func(err error) { observed <- err })
	}()
	select {
	case err := <-observed:
		require.NoError(t, err)
	case <-time.After(time.Minute):
		require.Fail(t, "no measurement")
	}
	require.Positive(t, clock.RoundTrip())
	cancel()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		require.Fail(t, "Run did not end")
	}
	for len(observed) > 0 {
		require.False(t, errors.Is(<-observed, context.Canceled), "the end is no failed measurement")
	}
}
