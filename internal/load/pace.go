package load

import (
	"slices"
	"time"

	"pushq/internal/slidingsecond"
)

// pace returns how many requests were started a second, from the first start to
// the last one, and the largest number in any second. Starts are known to the
// millisecond. It sorts them.
func pace(starts []time.Time) (perSecond float64, largestSecond int) {
	if len(starts) == 0 {
		return 0, 0
	}
	slices.SortFunc(starts, time.Time.Compare)
	first := starts[0]
	var second slidingsecond.Count
	for _, start := range starts {
		second.Add(start.Sub(first))
	}
	if span := starts[len(starts)-1].Sub(first); span > 0 {
		perSecond = float64(len(starts)-1) / span.Seconds()
	}
	return perSecond, second.Largest()
}
