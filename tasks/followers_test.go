package tasks

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// told are the records in a stream, oldest first.
func told(t *testing.T, client *redis.Client, stream string) (ids []string, records []Record) {
	entries, err := client.XRange(t.Context(), stream, "-", "+").Result()
	require.NoError(t, err)
	for _, entry := range entries {
		require.Len(t, entry.Values, 2)
		var record Record
		require.NoError(t, json.Unmarshal([]byte(entry.Values["record"].(string)), &record))
		ids, records = append(ids, entry.Values["id"].(string)), append(records, record)
	}
	return ids, records
}

func TestFollowersAreToldOfWhatIsRecorded(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		s := newStory(t, client)
		ends, all := Swrve.FollowKey("ends"), Swrve.FollowKey("all")
		s.records.Followers = Followers{Ends: []string{"ends"}, Attempts: []string{"all"}}
		s.begun("a")
		require.NoError(t, s.records.Withdraw(t.Context(), s.push, "a", "not sent"))
		require.Zero(t, client.XLen(t.Context(), all).Val(), "nothing has come of it")
		s.begun("b")
		s.fail("b", "")
		require.Zero(t, client.XLen(t.Context(), ends).Val(), "the push goes on")
		require.EqualValues(t, 1, client.XLen(t.Context(), all).Val())
		s.begun("c")
		s.succeed("c")
		s.succeed("c") // repeated after a lost answer

		ids, records := told(t, client, ends)
		require.Equal(t, []string{s.push.ID}, ids)
		require.Equal(t, Sent, records[0].End)
		require.Len(t, records[0].Attempts, len(s.record().Attempts))
		_, records = told(t, client, all)
		require.GreaterOrEqual(t, len(records), 2)
		require.Equal(t, Sent, records[len(records)-1].End)
	})
}

// The quick way for a first attempt that delivers, with the completion of the task or
// without.
func TestFollowersAreToldOfAPushThatWasSentAtOnce(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		for _, completed := range []bool{false, true} {
			s := newStory(t, client)
			ends := Swrve.FollowKey("ends")
			require.NoError(t, client.Del(t.Context(), ends).Err())
			s.records.Followers = Followers{Ends: []string{"ends"}}
			s.begun("a")
			millis := int64(3)
			attempt := Attempt{Token: "a", Status: AttemptOK, StartedAt: MillisOf(time.Now()), Millis: &millis}
			var err error
			if completed {
				_, err = s.records.FinishSent(t.Context(), s.push, attempt)
			} else {
				_, err = s.records.Finish(t.Context(), s.push, attempt, Sent)
			}
			require.NoError(t, err)
			ids, records := told(t, client, ends)
			require.Equal(t, []string{s.push.ID}, ids)
			require.Equal(t, *s.record(), withID(records[0], s.push.ID))
		}
	})
}

func withID(record Record, id string) Record {
	record.Push.ID = id
	return record
}

// Whoever records an end tells those of other processes, too: who follows a channel is kept
// in Redis.
func TestFollowersOfOtherProcessesAreTold(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		s := newStory(t, client)
		ends, all := Swrve.FollowKey("ends"), Swrve.FollowKey("all")
		others := Followers{Ends: []string{"ends"}, Attempts: []string{"all"}}
		require.NoError(t, AddFollowers(t.Context(), client, Swrve, others))
		require.NoError(t, AddFollowers(t.Context(), client, Swrve, Followers{}))
		known, err := ReadFollowers(t.Context(), client, Swrve)
		require.NoError(t, err)
		require.Equal(t, others, known)

		s.begun("a")
		s.fail("a", "")
		require.Zero(t, client.XLen(t.Context(), ends).Val(), "the push goes on")
		require.EqualValues(t, 1, client.XLen(t.Context(), all).Val())
		s.begun("b")
		s.succeed("b")
		require.EqualValues(t, 1, client.XLen(t.Context(), ends).Val())
		require.EqualValues(t, 2, client.XLen(t.Context(), all).Val())
		s = newStory(t, client)
		require.Equal(t, string(Cancelled), s.cancelRecord(0))
		require.EqualValues(t, 2, client.XLen(t.Context(), ends).Val())
		require.EqualValues(t, 3, client.XLen(t.Context(), all).Val())

		// As the doctor says: one of them is not wanted any more.
		require.NoError(t, client.HDel(t.Context(), Swrve.FollowersKey(), "all").Err())
		require.NoError(t, client.Del(t.Context(), all).Err())
		s = newStory(t, client)
		s.end(GivenUp)
		require.EqualValues(t, 3, client.XLen(t.Context(), ends).Val())
		require.Zero(t, client.Exists(t.Context(), all).Val())
	})
}

// A Redis that has come back empty knows no followers: those of the process that records an
// end are told of it all the same, and made known again.
func TestFollowersAreMadeKnownAgain(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		s := newStory(t, client)
		s.records.Followers = Followers{Ends: []string{"ends"}, Attempts: []string{"all"}}
		require.NoError(t, client.HSet(t.Context(), Swrve.FollowersKey(), "other", "ends").Err())
		s.end(GivenUp)
		for _, name := range []string{"ends", "all", "other"} {
			require.EqualValues(t, 1, client.XLen(t.Context(), Swrve.FollowKey(name)).Val(), name)
		}
		known, err := ReadFollowers(t.Context(), client, Swrve)
		require.NoError(t, err)
		require.Equal(t, Followers{Ends: []string{"ends", "other"}, Attempts: []string{"all"}}, known)
	})
}

func TestNobodyIsToldWithoutFollowers(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		s := newStory(t, client)
		s.begun("a")
		s.succeed("a")
		keys, err := client.Keys(t.Context(), "*follow*").Result()
		require.NoError(t, err)
		require.Empty(t, keys)
	})
}
