package follow

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"pushq/internal/redistest"
)

func TestBacklogs(t *testing.T) {
	redistest.OnEveryServer(t, func(t *testing.T, client redis.UniversalClient) {
		now := time.UnixMilli(1_764_313_200_000)
		for _, id := range []string{"1764313100000-0", "1764313100000-1", "1764313199000-0"} {
			require.NoError(t, client.XAdd(t.Context(), &redis.XAddArgs{Stream: stream, ID: id, Values: []string{"id", "01JB"}}).Err())
		}
		const ahead = "{test}:ahead" // of the clock
		require.NoError(t, client.XAdd(t.Context(), &redis.XAddArgs{Stream: ahead, ID: "1764313200001-0", Values: []string{"id", "01JB"}}).Err())
		read := func(streams ...string) []Backlog {
			t.Helper()
			backlogs, err := ReadBacklogs(t.Context(), client, streams, now)
			require.NoError(t, err)
			return backlogs
		}
		require.Equal(t, []Backlog{{}, {Entries: 3, Oldest: 100 * time.Second}, {Entries: 1}}, read("{test}:nothing", stream, ahead))

		holding(t, client, "somebody", 2)
		require.Equal(t, []Backlog{{Entries: 3, Oldest: 100 * time.Second}}, read(stream), "what is in hand counts")
		require.NoError(t, client.XDel(t.Context(), stream, "1764313100000-0", "1764313100000-1").Err())
		require.Equal(t, []Backlog{{Entries: 1, Oldest: time.Second}}, read(stream))

		require.NoError(t, client.Set(t.Context(), "{test}:text", "no stream", 0).Err())
		_, err := ReadBacklogs(t.Context(), client, []string{stream, "{test}:text"}, now)
		require.ErrorContains(t, err, "read the backlogs of streams: ")
	})
}
