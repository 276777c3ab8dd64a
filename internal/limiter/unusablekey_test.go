package limiter

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"pushq/internal/redistest"
)

// Nobody stands still for what somebody else has put under the keys of the pace.
func TestThePaceWritesOverWhatIsOfAnotherForm(t *testing.T) {
	redistest.OnEveryServer(t, func(t *testing.T, client redis.UniversalClient) {
		keys := []string{paceKey, brakeKey, overrideKey}
		for name, spoil := range map[string]func(key string) error{
			"list": func(key string) error { return client.RPush(t.Context(), key, "x").Err() },
			"hash": func(key string) error {
				return client.HSet(t.Context(), key, "next", "x", "delay", "x", "speed", "x", "speed_at", "x", "warm_at", "x", "override", "x").Err()
			},
			"text": func(key string) error { return client.Set(t.Context(), key, "x", 0).Err() },
		} {
			again := func() {
				for _, key := range keys {
					require.NoError(t, client.Del(t.Context(), key).Err())
					require.NoError(t, spoil(key), name)
				}
			}
			again()
			require.NoError(t, paceScript.Run(t.Context(), client, keys).Err(), name)
			throttle(t, client, 0)
			again()
			reply := reserve(t, client, 3, 20_000, 0)
			require.Len(t, reply.slots, 3, name)
			require.Zero(t, reply.brake, name)
			require.Zero(t, reply.override, name)
		}
	})
}
