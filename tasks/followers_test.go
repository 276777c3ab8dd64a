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
		s.records.Followers = Followers{Ends: []string{ends}, Attempts: []string{all}}
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
			s.records.Followers = Followers{Ends: []string{ends}}
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
