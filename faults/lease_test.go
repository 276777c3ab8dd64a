package faults

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"pushq/tasks"
)

// expireLeases has the dead worker's pushes taken back at the next look, which is
// at a worker's start and then every second, instead of half a minute later.
func expireLeases(t *testing.T, client *redis.Client) {
	t.Helper()
	ctx := context.Background()
	for _, queue := range append(tasks.Swrve.Queues(), tasks.FCM.Queues()...) {
		key := "asynq:{" + queue + "}:lease"
		members, err := client.ZRange(ctx, key, 0, -1).Result()
		require.NoError(t, err)
		for _, member := range members {
			past := float64(time.Now().Add(-time.Hour).Unix())
			// Only if it is still held: a lease of a push that has ended is a fault.
			require.NoError(t, client.ZAddXX(ctx, key, redis.Z{Score: past, Member: member}).Err())
		}
	}
}
