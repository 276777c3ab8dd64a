package main

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPercentile(t *testing.T) {
	t.Parallel()
	hundred := make([]float64, 100)
	for place, number := range rand.Perm(100) {
		hundred[place] = float64(number + 1)
	}
	for _, example := range []struct {
		values     []float64
		p, percent float64
	}{
		{hundred, 50, 50}, {hundred, 99, 99}, {hundred, 99.5, 100}, {hundred, 100, 100}, {hundred, 0, 1},
		{[]float64{7}, 50, 7}, {[]float64{7}, 99, 7},
		{[]float64{3, 1, 2}, 50, 2}, {[]float64{3, 1, 2}, 95, 3}, {[]float64{4, 1, 2, 3}, 50, 2},
	} {
		require.Equal(t, example.percent, percentile(example.values, example.p), "p%g of %v", example.p, example.values)
	}
	require.True(t, math.IsNaN(percentile(nil, 50)))
}

func TestPercentileLeavesTheValuesAlone(t *testing.T) {
	t.Parallel()
	values := []float64{3, 1, 2}
	percentile(values, 50)
	median(values)
	require.Equal(t, []float64{3, 1, 2}, values)
}

func TestMedian(t *testing.T) {
	t.Parallel()
	require.Equal(t, 2.0, median([]float64{3, 1, 2}))
	require.Equal(t, 2.5, median([]float64{4, 1, 2, 3}))
	require.Equal(t, 5.0, median([]float64{5}))
	require.True(t, math.IsNaN(median(nil)))
}

func TestRatios(t *testing.T) {
	t.Parallel()
	require.Equal(t, []float64{2, 3}, ratios([]float64{4, 9, 5}, []float64{2, 3}))
	require.Empty(t, ratios([]float64{4}, nil))
	require.Equal(t, 2.0, ratio([]float64{4, 100, 4}, []float64{2, 2, 50}))
	require.True(t, math.IsNaN(ratio([]float64{4}, nil)))
}
