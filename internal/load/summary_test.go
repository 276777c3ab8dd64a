package load

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func millis(values ...int) []time.Duration {
	var list []time.Duration
	for _, value := range values {
		list = append(list, time.Duration(value)*time.Millisecond)
	}
	return list
}

func oneTo(last int) []int {
	var list []int
	for value := last; value >= 1; value-- {
		list = append(list, value)
	}
	return list
}

func TestSummary(t *testing.T) {
	t.Parallel()
	for name, example := range map[string]struct {
		samples []time.Duration
		want    *Summary
	}{
		"none":  {nil, nil},
		"one":   {millis(7), &Summary{Count: 1, P50: 7, P75: 7, P95: 7, P98: 7, P99: 7, P999: 7, Min: 7, Mean: 7, Max: 7}},
		"two":   {millis(3, 1), &Summary{Count: 2, P50: 1, P75: 3, P95: 3, P98: 3, P99: 3, P999: 3, Min: 1, Mean: 2, Deviation: 1, Max: 3}},
		"eight": {millis(2, 4, 4, 4, 5, 5, 7, 9), &Summary{Count: 8, P50: 4, P75: 5, P95: 9, P98: 9, P99: 9, P999: 9, Min: 2, Mean: 5, Deviation: 2, Max: 9}},
		// 0.95 x 20 is 19 exactly: the 19th, not the 20th.
		"twenty":   {millis(oneTo(20)...), &Summary{Count: 20, P50: 10, P75: 15, P95: 19, P98: 20, P99: 20, P999: 20, Min: 1, Mean: 10.5, Deviation: 5.766281297335398, Max: 20}},
		"thousand": {millis(oneTo(1000)...), &Summary{Count: 1000, P50: 500, P75: 750, P95: 950, P98: 980, P99: 990, P999: 999, Min: 1, Mean: 500.5, Deviation: 288.6749902572095, Max: 1000}},
		"fraction": {[]time.Duration{1500 * time.Microsecond}, &Summary{Count: 1, P50: 1.5, P75: 1.5, P95: 1.5, P98: 1.5, P99: 1.5, P999: 1.5, Min: 1.5, Mean: 1.5, Max: 1.5}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, example.want, summarize(example.samples))
		})
	}
}

// Nearest rank by its definition: at least so many percent of the samples are
// not above it, and it is the least such sample.
func TestPercentilesByDefinition(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.IntRange(0, 50), 1, 300).Draw(t, "values")
		got := summarize(millis(values...))
		for perMille, percentile := range map[int]float64{500: got.P50, 750: got.P75, 950: got.P95, 980: got.P98, 990: got.P99, 999: got.P999} {
			enough := func(limit int) bool {
				notAbove := 0
				for _, value := range values {
					if value <= limit {
						notAbove++
					}
				}
				return 1000*notAbove >= perMille*len(values)
			}
			sorted := slices.Sorted(slices.Values(values))
			least := sorted[slices.IndexFunc(sorted, enough)]
			require.InDelta(t, least, percentile, 1e-9)
		}
	})
}
