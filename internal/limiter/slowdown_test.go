package limiter

import (
	"log/slog"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

func TestSlowdown(t *testing.T) {
	onEveryServer(t, func(t *testing.T, client redis.UniversalClient) {
		l := Start(client, Options{PaceKey: paceKey, BrakeKey: brakeKey, Delay: time.Millisecond, Log: slog.New(slog.DiscardHandler)})
		t.Cleanup(l.Stop)
		speed, brake, err := l.Slowdown(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1.0, speed)
		require.Zero(t, brake)

		require.NoError(t, l.Throttled(t.Context(), time.Minute))
		speed, brake, err = l.Slowdown(t.Context())
		require.NoError(t, err)
		require.InDelta(t, 0.8, speed, 0.1)
		require.InDelta(t, time.Minute, brake, float64(10*time.Second))
		require.EqualValues(t, 1, l.Stats().Throttles)

		setFields(t, client, "speed_at", client.Time(t.Context()).Val().Add(-10*time.Second).UnixMicro())
		speed, _, err = l.Slowdown(t.Context())
		require.NoError(t, err)
		require.InDelta(t, 0.9, speed, 0.05, "back by 1 % a second")
	})
}
