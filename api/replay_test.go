package api

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/tasks"
)

// settableClock shows what the test has set.
type settableClock struct{ unix atomic.Int64 }

func (c *settableClock) Now() time.Time { return time.Unix(c.unix.Load(), 0) }

// The one time that an expression names may pass between a POST and its
// repetition, which must get the first one's answer all the same.
func TestKeyedPostIsReplayedAfterItsOnlyTime(t *testing.T) {
	t.Parallel()
	s := prepareService(t)
	only := time.Now().Add(48 * time.Hour).UTC().Truncate(time.Second)
	expression := `"` + only.Format("5 4 15 2 1 ? 2006") + `"`
	clock := &settableClock{}
	clock.unix.Store(only.Add(-time.Hour).Unix())
	s.options.Clock = clock
	s.start()
	body := push("cronExpression", expression)
	id := s.accept(body, idempotencyKeyHeader, "accepted")
	clock.unix.Store(only.Add(time.Hour).Unix())

	requireReplay := func() {
		again := s.post(body, idempotencyKeyHeader, "accepted")
		require.Equal(t, http.StatusAccepted, again.status, again.body)
		require.Equal(t, "true", again.header.Get(replayedHeader))
		require.Equal(t, "/push/"+id, again.header.Get("Location"))
	}
	requireReplay() // still queued
	require.Equal(t, 1, s.scheduled())

	s.post(body, idempotencyKeyHeader, "fresh").requireMistakes(t, "cronExpression")
	s.post(body).requireMistakes(t, "cronExpression")
	conflict := s.post(push("cronExpression", expression, "message", `"other"`), idempotencyKeyHeader, "accepted")
	require.Equal(t, http.StatusConflict, conflict.status)

	// The first caller died between its claim and the enqueue: nothing is
	// queued, nothing can be, and saying otherwise would lose the push.
	ctx := context.Background()
	claim, err := s.client.Get(ctx, tasks.Swrve.ClaimKey(id)).Result()
	require.NoError(t, err)
	claimed := tasks.KeyedID("", "claimed")
	require.NoError(t, s.client.Set(ctx, tasks.Swrve.ClaimKey(claimed), claim, time.Hour).Err())
	s.post(body, idempotencyKeyHeader, "claimed").requireMistakes(t, "cronExpression")

	// Sent and forgotten.
	require.NoError(t, s.records.End(ctx, tasks.Push{ID: id}, tasks.Sent))
	require.NoError(t, s.client.Del(ctx, tasks.Swrve.RecordKey(id)).Err())
	require.NoError(t, s.client.Del(ctx, "asynq:{"+tasks.Swrve.WindowQueue()+"}:t:"+id).Err())
	requireReplay()
}

func (s *testService) scheduled() int {
	s.t.Helper()
	count, err := s.client.ZCard(context.Background(), "asynq:{"+tasks.Swrve.WindowQueue()+"}:scheduled").Result()
	require.NoError(s.t, err)
	return int(count)
}
