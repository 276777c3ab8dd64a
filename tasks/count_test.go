package tasks

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

func (d *desk) counts() map[State]Count {
	d.t.Helper()
	counts, err := d.reader.Count(d.t.Context())
	require.NoError(d.t, err)
	all := make(map[State]Count)
	for _, count := range counts {
		all[count.State] = count
	}
	require.Len(d.t, all, len(States()))
	return all
}

func TestCountOfEveryState(t *testing.T) {
	t.Parallel()
	for _, state := range States() {
		t.Run(string(state), func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			require.Equal(t, Count{State: state, Exact: true}, d.counts()[state])
			many := 3
			if state == InMemory {
				many = 1 // the desk has one worker
			}
			for range many {
				d.inState(state)
			}
			for _, other := range States() {
				want := Count{State: other, Exact: true}
				if other == state {
					want.Count = int64(many)
				}
				require.Equal(t, want, d.counts()[other])
			}
		})
	}
}

// Of more than a sample in one set the numbers are estimates, and say so.
func TestCountOfManyIsAnEstimate(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	const each = 2 * countSample
	d.seed(each, Failed, plain)
	d.seed(each, GivenUp, plain)
	d.acceptMany(3, func(int) Push { return newPush() })
	counts := d.counts()
	sum := int64(0)
	for _, state := range []State{Failed, GivenUp, Cancelled} {
		require.False(t, counts[state].Exact, state)
		sum += counts[state].Count
	}
	require.InDelta(t, 2*each, sum, 2, "what is not one is the other")
	// One of two, 500 times: six standard deviations are 67.
	require.InDelta(t, each, counts[Failed].Count, 67*float64(2*each)/countSample)
	require.Equal(t, Count{State: Pending, Count: 3, Exact: true}, counts[Pending])

	// What has been requeued since stands in the index yet, and is not counted twice.
	require.NoError(t, d.client.Del(t.Context(), Swrve.DeadKey()).Err())
	push := d.inState(Pending)
	require.NoError(t, d.client.ZAdd(t.Context(), Swrve.DeadKey(), redis.Z{Score: float64(time.Now().UnixMilli()), Member: push.ID}).Err())
	require.Zero(t, d.counts()[Failed].Count)
	require.EqualValues(t, 4, d.counts()[Pending].Count)
}
