package load

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPace(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 11, 27, 9, 0, 0, 0, time.UTC)
	for name, example := range map[string]struct {
		millis    []int
		perSecond float64
		largest   int
	}{
		"none":                   {nil, 0, 0},
		"one":                    {[]int{5}, 0, 1},
		"at once":                {[]int{5, 5}, 0, 2},
		"a second apart":         {[]int{0, 1000, 2000}, 1, 1},
		"a little less apart":    {[]int{0, 999, 2000}, 1, 2},
		"not in order":           {[]int{1500, 0, 500, 1000}, 2, 2},
		"over a full second":     {[]int{0, 900, 950, 1000, 1050, 4000}, 1.25, 4},
		"every ten milliseconds": {[]int{0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100}, 100, 11},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var starts []time.Time
			for _, value := range example.millis {
				starts = append(starts, begin.Add(time.Duration(value)*time.Millisecond))
			}
			perSecond, largest := pace(starts)
			require.InDelta(t, example.perSecond, perSecond, 1e-9)
			require.Equal(t, example.largest, largest)
		})
	}
}
