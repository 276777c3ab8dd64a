package main

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"pushq/internal/swrvesim"
	"pushq/internal/testenv"
	"pushq/tasks"
)

func TestWorkersKeepAsynqsArchiveSmall(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	client := w.Redis.Client(t)
	archive := func(queue string) string { return "asynq:{" + queue + "}:archived" }
	seed := func() {
		for _, queue := range tasks.Swrve.Queues() {
			for number := range 5 {
				id := fmt.Sprint("old-", number)
				require.NoError(t, client.HSet(t.Context(), "asynq:{"+queue+"}:t:"+id, "state", "archived", "msg", "").Err())
				require.NoError(t, client.ZAdd(t.Context(), archive(queue), redis.Z{Score: float64(time.Now().AddDate(0, 0, -31).Unix()), Member: id}).Err())
			}
		}
	}
	empty := func() bool {
		left := int64(0)
		for _, queue := range tasks.Swrve.Queues() {
			count, err := client.ZCard(context.Background(), archive(queue)).Result()
			require.NoError(t, err)
			left += count
		}
		return left == 0
	}
	seed()
	w.startReady("worker")
	require.True(t, empty(), "the archive is in order before the workers start")
	seed()
	testenv.Eventually(t, 20*time.Second, "the archive to be in order again", empty)
}
