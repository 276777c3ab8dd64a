package load

import (
	"math"
	"slices"
	"time"
)

// Summary describes a series of times, in milliseconds. Percentiles are exact
// and by nearest rank: the least sample that at least so many percent of all
// samples do not exceed; nothing is interpolated or estimated. The deviation is
// that of the samples themselves (divided by n).
type Summary struct {
	Count     int     `json:"count"`
	P50       float64 `json:"p50"`
	P75       float64 `json:"p75"`
	P95       float64 `json:"p95"`
	P98       float64 `json:"p98"`
	P99       float64 `json:"p99"`
	P999      float64 `json:"p999"`
	Min       float64 `json:"min"`
	Mean      float64 `json:"mean"`
	Deviation float64 `json:"standardDeviation"`
	Max       float64 `json:"max"`
}

// summarize returns nil if there are no samples. It sorts them.
func summarize(samples []time.Duration) *Summary {
	if len(samples) == 0 {
		return nil
	}
	slices.Sort(samples)
	millis := func(rank int) float64 { return inMillis(samples[rank-1]) }
	// Integers, because 0.95 x 20 is a little more than 19 in floating point.
	percentile := func(perMille int) float64 { return millis((perMille*len(samples) + 999) / 1000) }

	var sum, squares float64
	for _, sample := range samples {
		sum += inMillis(sample)
	}
	mean := sum / float64(len(samples))
	for _, sample := range samples {
		squares += (inMillis(sample) - mean) * (inMillis(sample) - mean)
	}
	return &Summary{
		Count: len(samples),
		P50:   percentile(500), P75: percentile(750), P95: percentile(950),
		P98: percentile(980), P99: percentile(990), P999: percentile(999),
		Min: millis(1), Mean: mean, Deviation: math.Sqrt(squares / float64(len(samples))), Max: millis(len(samples)),
	}
}

func inMillis(duration time.Duration) float64 { return float64(duration) / float64(time.Millisecond) }
