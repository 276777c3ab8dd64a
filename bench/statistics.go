package main

import (
	"math"
	"slices"
)

// percentile returns the smallest value that at least p percent of the values
// do not exceed (nearest rank), NaN if there are none. The values are not
// changed.
func percentile(values []float64, p float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// median returns the middle value, or the mean of the two in the middle; NaN if
// there are none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// ratios divides each value by the one of the same round.
func ratios(values, by []float64) []float64 {
	var divided []float64
	for round := range min(len(values), len(by)) {
		divided = append(divided, values[round]/by[round])
	}
	return divided
}

// ratio is above 1 if the first is more; a median of two series of rounds.
func ratio(values, by []float64) float64 { return median(values) / median(by) }
