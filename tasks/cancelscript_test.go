package tasks

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// cancelRecord runs cancel.lua for an end that was seen. An attempt that is an hour old
// is that of a worker that has died.
func (s *story) cancelRecord(seen Millis) string {
	content, err := s.push.encode()
	require.NoError(s.t, err)
	state, err := cancelScript.Run(s.ctx, s.client,
		[]string{Swrve.RecordKey(s.push.ID), Swrve.DeadKey(), Swrve.ClaimKey(s.push.ID), Swrve.FollowersKey()},
		s.push.ID, content, int64(seen), seconds(testRetention.Dead), "", time.Hour.Milliseconds()).Text()
	require.NoError(s.t, err)
	return state
}

func TestCancelScriptMarksAPushWithoutARecord(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		s := newStory(t, client)
		s.push = newWindowedPush(time.Now().Add(100 * 24 * time.Hour))
		require.NoError(t, client.Set(t.Context(), Swrve.ClaimKey(s.push.ID), "hash", time.Minute).Err())
		forgotten := float64(time.Now().Add(-testRetention.Dead - time.Minute).UnixMilli())
		require.NoError(t, client.ZAdd(t.Context(), Swrve.DeadKey(), redis.Z{Score: forgotten, Member: "forgotten"}).Err())

		var first *Record
		for range 2 { // it may be repeated
			require.Equal(t, string(Cancelled), s.cancelRecord(0))
			if first == nil {
				first = s.record()
			}
			require.Equal(t, first, s.record())
			require.Equal(t, &Record{Push: s.push, End: Cancelled, EndedAt: first.EndedAt}, first)
			require.WithinDuration(t, time.Now(), first.EndedAt.Time(), time.Minute)
			members, err := client.ZRangeWithScores(t.Context(), Swrve.DeadKey(), 0, -1).Result()
			require.NoError(t, err)
			require.Equal(t, []redis.Z{{Score: float64(first.EndedAt), Member: s.push.ID}}, members)
			claim, err := client.Get(t.Context(), Swrve.ClaimKey(s.push.ID)).Result()
			require.NoError(t, err)
			require.Equal(t, "hash ended", claim)
			lifetime, err := client.TTL(t.Context(), Swrve.ClaimKey(s.push.ID)).Result()
			require.NoError(t, err)
			require.InDelta(t, testRetention.Dead.Seconds(), lifetime.Seconds(), 60)
			s.requireLifetime(testRetention.Dead)
		}
		require.Equal(t, Begun{Answer: AlreadyCancelled, End: Cancelled}, s.begin(s.attempting("a")))
	})
}

func TestCancelScriptKeepsTheStory(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		s := newStory(t, client)
		s.begun("a")
		s.fail("a", "")
		attempts := s.record().Attempts
		require.Equal(t, string(Cancelled), s.cancelRecord(0))
		require.Equal(t, attempts, s.record().Attempts)
		require.Zero(t, client.Exists(t.Context(), Swrve.ClaimKey(s.push.ID)).Val(), "no claim where there was none")
	})
}

// A push may wait for its window for hours after its worker has died.
func TestCancelScriptClosesTheAttemptOfADeadWorker(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		s := newStory(t, client)
		s.begun("a")
		s.interrupt("a", time.Hour-time.Minute)
		require.Equal(t, string(InMemory), s.cancelRecord(0))
		s.interrupt("a", time.Hour)
		require.Equal(t, string(Cancelled), s.cancelRecord(0))
		record := s.record()
		require.Equal(t, Cancelled, record.End)
		require.Len(t, record.Attempts, 1)
		require.Equal(t, AttemptError, record.Attempts[0].Status)
		require.True(t, record.Attempts[0].MaybeDelivered)
		require.Contains(t, record.Attempts[0].ErrorMessage, "interrupted")
	})
}

func TestCancelScriptRefuses(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		for want, prepare := range map[State]func(*story){
			InMemory: func(s *story) { s.begun("a") },
			Sent:     func(s *story) { s.begun("a"); s.succeed("a") },
			Failed:   func(s *story) { s.begun("a"); s.fail("a", Failed) },
			GivenUp:  func(s *story) { s.end(GivenUp) },
		} {
			s := newStory(t, client)
			prepare(s)
			record := s.record()
			require.Equal(t, string(want), s.cancelRecord(0))
			require.Equal(t, record, s.record())
		}
	})
}

// A push that was run again with asynq's tools keeps its end until then.
func TestCancelScriptReplacesTheEndThatWasSeen(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		s := newStory(t, client)
		s.begun("a")
		s.fail("a", Failed)
		seen := s.record().EndedAt
		require.Equal(t, string(Failed), s.cancelRecord(seen-1))
		require.Equal(t, string(Cancelled), s.cancelRecord(seen))
		require.Equal(t, Cancelled, s.record().End)
	})
}
