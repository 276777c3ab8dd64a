package breaker

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"pushq/internal/redistest"
)

// No call is held up by what somebody else has put under the keys of a breaker.
func TestTheBreakerWritesOverWhatIsOfAnotherType(t *testing.T) {
	redistest.OnEveryServer(t, func(t *testing.T, client redis.UniversalClient) {
		c := newCircuit(t, client)
		spoil := func(key string) {
			require.NoError(t, client.Del(t.Context(), key).Err())
			require.NoError(t, client.RPush(t.Context(), key, "x").Err())
		}
		hash, failing := c.breaker.Hash, c.breaker.Failing
		c.call(Bad, "a", 1)
		spoil(hash)
		spoil(failing)
		c.call(Bad, "a", 2)
		for number, result := range []Result{Bad, Good, Void} {
			spoil(failing)
			require.Equal(t, "GO", c.askFor("b", number))
			spoil(failing)
			c.reportFor(result, "b", number)
		}
		require.Equal(t, "hash", client.Type(t.Context(), hash).Val())
	})
}
