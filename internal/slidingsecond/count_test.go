package slidingsecond

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestCountAgainstBruteForce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		gap := rapid.OneOf(
			rapid.Int64Range(0, int64(20*time.Millisecond)),
			rapid.Int64Range(0, int64(2*time.Second)),
			rapid.SampledFrom([]int64{0, 1, int64(time.Second) - 1, int64(time.Second), int64(time.Second) + 1, int64(500 * time.Millisecond)}),
		)
		var second Count
		var arrivals []time.Duration
		var now time.Duration
		for _, step := range rapid.SliceOfN(gap, 0, 150).Draw(t, "gaps") {
			now += time.Duration(step)
			arrivals = append(arrivals, now)

			// The half-open second (now-1s, now], and every second [a, a+1s).
			inSecond, largest := 0, 0
			for i, from := range arrivals {
				if from > now-time.Second {
					inSecond++
				}
				count := 0
				for _, at := range arrivals[i:] {
					if at < from+time.Second {
						count++
					}
				}
				largest = max(largest, count)
			}
			require.Equal(t, inSecond, second.Add(now))
			require.Equal(t, largest, second.Largest())
		}
	})
}
