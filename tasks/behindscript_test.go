package tasks

import (
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

func TestBehindScript(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		const key = "set"
		read := func(score float64, member string, count int) []string {
			flat, err := behindScript.Run(t.Context(), client, []string{key}, score, member, count).StringSlice()
			require.NoError(t, err)
			found := []string{}
			for place := 0; place < len(flat); place += 2 {
				found = append(found, flat[place])
			}
			return found
		}
		require.Empty(t, read(0, "", 10), "there is no set")
		for member, score := range map[string]float64{"B": 1, "Bb": 1, "a": 1, "Z": 1, "A": 2, "C": 1.5, "\xc3\xa9": 1, "last": 1.7e12} {
			require.NoError(t, client.ZAdd(t.Context(), key, redis.Z{Score: score, Member: member}).Err())
		}
		all := []string{"B", "Bb", "Z", "a", "\xc3\xa9", "C", "A", "last"} // by score, then by bytes
		require.Equal(t, all, read(0, "", 100))
		require.Equal(t, all[:3], read(0, "", 3))
		require.Equal(t, all, read(1, "", 100), "every member of that score is behind the empty one")
		require.Equal(t, all[6:], read(2, "", 100))
		require.Equal(t, []string{"last"}, read(1.7e12, "", 100))
		require.Empty(t, read(1.7e12, "last", 100))
		require.Empty(t, read(1.7e12+1, "", 100))
		scores := []float64{1, 1, 1, 1, 1, 1.5, 2}
		for place, score := range scores {
			require.Equal(t, all[place+1:], read(score, all[place], 100), all[place])
		}
		for place, member := range all[:5] { // a place need not be taken
			require.NoError(t, client.ZRem(t.Context(), key, member).Err())
			require.Equal(t, all[place+1:], read(1, member, 100))
		}
	})
}

// Many of one score are read in pages, each once, while what was read leaves.
func TestBehindScriptPagesThroughOneScore(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		var members []redis.Z
		for number := range 1000 {
			members = append(members, redis.Z{Score: 5, Member: fmt.Sprintf("%04d", number)})
		}
		require.NoError(t, client.ZAdd(t.Context(), "set", members...).Err())
		member, seen := "", 0
		for {
			flat, err := behindScript.Run(t.Context(), client, []string{"set"}, 5, member, 7).StringSlice()
			require.NoError(t, err)
			if len(flat) == 0 {
				break
			}
			for place := 0; place < len(flat); place += 2 {
				require.Equal(t, fmt.Sprintf("%04d", seen), flat[place])
				seen++
				if seen%3 > 0 {
					require.NoError(t, client.ZRem(t.Context(), "set", flat[place]).Err())
				}
			}
			member = flat[len(flat)-2]
		}
		require.Equal(t, 1000, seen)
	})
}
