package tasks

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"pushq/internal/testenv"
)

// retryRecord runs retry.lua for an end that was seen.
func (s *story) retryRecord(seen Millis) string {
	content, err := s.push.content()
	require.NoError(s.t, err)
	forbids, err := retryScript.Run(s.ctx, s.client, []string{Swrve.RecordKey(s.push.ID), Swrve.ClaimKey(s.push.ID)},
		s.push.ID, content, int64(seen), seconds(testRetention.Dead)).StringSlice()
	require.NoError(s.t, err)
	require.Empty(s.t, forbids[1])
	return forbids[0]
}

func TestRetryScriptGivesAFreshBudget(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		s := newStory(t, client)
		for _, token := range []string{"a", "b"} {
			s.begun(token)
			s.fail(token, "")
		}
		s.begun("c")
		s.fail("c", GivenUp)
		record := s.record()
		record.Budget = 1
		s.write(record)
		require.True(t, s.dead())

		for range 2 { // it may be repeated
			require.Empty(t, s.retryRecord(record.EndedAt))
			require.Equal(t, &Record{Push: s.push, Attempts: record.Attempts, BudgetFrom: 3}, s.record())
			require.True(t, s.dead(), "until its task is run")
			s.requireLifetime(testRetention.Dead)
		}
		for place, token := range []string{"d", "e", "f"} {
			require.Equal(t, Begun{Answer: Go, Attempt: 4 + place, Counted: 1 + place, Last: token == "f"}, s.begin(s.attempting(token)))
			s.fail(token, "")
		}
		require.Equal(t, Spent, s.begin(s.attempting("g")).Answer)
	})
}

func TestRetryScriptWithoutARecordOrAttempts(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		s := newStory(t, client)
		require.Empty(t, s.retryRecord(0))
		require.Nil(t, s.record())

		s.end(Failed)
		require.Empty(t, s.retryRecord(s.record().EndedAt))
		require.Equal(t, &Record{Push: s.push}, s.record())
		s.begun("a")
	})
}

func TestRetryScriptLeavesOtherEndsAlone(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		s := newStory(t, client)
		s.begun("a")
		s.fail("a", Failed)
		record := s.record()
		for _, seen := range []Millis{0, record.EndedAt - 1} {
			require.Equal(t, string(Failed), s.retryRecord(seen), "another run has ended it since")
			require.Equal(t, record, s.record())
			require.True(t, s.dead())
		}

		s = newStory(t, client)
		s.begun("a")
		s.succeed("a")
		record = s.record()
		require.Equal(t, string(Sent), s.retryRecord(record.EndedAt))
		require.Equal(t, record, s.record())
		s.requireLifetime(testRetention.Sent)
	})
}

func TestRetryScriptOfACancelledPush(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		s := newStory(t, client)
		s.push = newWindowedPush(time.Now().Add(time.Hour))
		require.Equal(t, string(Cancelled), s.cancelRecord(0))
		require.Equal(t, AlreadyCancelled, s.begin(s.attempting("a")).Answer)
		require.Empty(t, s.retryRecord(s.record().EndedAt))
		s.begun("a")
	})
}

// Lua's JSON knows neither lists without elements, nor all digits of a number, nor such
// large ones.
func TestRetryScriptKeepsTheNotification(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		s := newStory(t, client)
		message := testenv.Notification("variables", `{"share":1.50,"large":12345678901234567890,"name":"\u0000é"}`,
			"metadata", `{"list":[],"object":{},"huge":1e999,"deep":`+strings.Repeat("[", 20)+strings.Repeat("]", 20)+`}`)
		notification, err := ParseNotification(message)
		require.NoError(t, err)
		s.push = newNotificationPush(notification, message, NewID())
		s.begun("a")
		s.fail("a", Failed)
		before := s.record()
		require.Empty(t, s.retryRecord(before.EndedAt))
		after := s.record()
		require.Equal(t, string(before.Push.Notification), string(after.Push.Notification))
		require.Equal(t, &Record{Push: before.Push, Attempts: before.Attempts, BudgetFrom: 1}, after)
		s.begun("b")
		require.Equal(t, string(before.Push.Notification), string(s.record().Push.Notification))

		s = newStory(t, client)
		s.push = newNotificationPush(notification, message, NewID())
		s.end(Failed)
		for range 2 {
			require.Empty(t, s.retryRecord(s.record().EndedAt))
			require.Equal(t, string(before.Push.Notification), string(s.record().Push.Notification))
		}
		s.begun("a")
	})
}
