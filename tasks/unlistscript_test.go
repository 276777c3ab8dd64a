package tasks

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

func (s *story) unlist() int {
	removed, err := unlistScript.Run(s.ctx, s.client, []string{Swrve.RecordKey(s.push.ID), Swrve.DeadKey()}, s.push.ID).Int()
	require.NoError(s.t, err)
	return removed
}

func TestUnlistScript(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		s := newStory(t, client)
		s.begun("a")
		s.fail("a", Failed)
		require.Zero(t, s.unlist(), "it has an end")
		require.True(t, s.dead())

		require.Empty(t, s.retryRecord(s.record().EndedAt))
		require.Equal(t, 1, s.unlist())
		require.Zero(t, s.unlist())
		require.False(t, s.dead())

		require.NoError(t, client.ZAdd(t.Context(), Swrve.DeadKey(), redis.Z{Score: 1, Member: s.push.ID}).Err())
		require.NoError(t, client.Del(t.Context(), Swrve.RecordKey(s.push.ID)).Err())
		require.Equal(t, 1, s.unlist(), "its record is gone")

		for _, nonsense := range []string{"", "no JSON", "[]", "7", `{"push":{}`, strings.Repeat(`{"push":`, 2000)} {
			require.NoError(t, client.Set(t.Context(), Swrve.RecordKey(s.push.ID), nonsense, 0).Err())
			require.NoError(t, client.ZAdd(t.Context(), Swrve.DeadKey(), redis.Z{Score: 1, Member: s.push.ID}).Err())
			require.Equal(t, 1, s.unlist(), "its record is %.20q", nonsense)
		}
		require.NoError(t, client.Del(t.Context(), Swrve.RecordKey(s.push.ID)).Err())
		require.NoError(t, client.RPush(t.Context(), Swrve.RecordKey(s.push.ID), "a list").Err())
		require.NoError(t, client.ZAdd(t.Context(), Swrve.DeadKey(), redis.Z{Score: 1, Member: s.push.ID}).Err())
		require.Equal(t, 1, s.unlist(), "its record is of another type")
	})
}
