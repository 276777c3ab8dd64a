package swrvesim

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOriginalLatencyHasThePublishedPercentiles(t *testing.T) {
	t.Parallel()
	const draws = 200_000
	random := rand.New(rand.NewPCG(1, 1))
	latencies := make([]float64, draws)
	sum := 0.0
	for i := range latencies {
		latencies[i] = float64(OriginalLatency(1).draw(random)) / float64(time.Millisecond)
		sum += latencies[i]
	}
	slices.Sort(latencies)
	for _, test := range []struct{ share, millis float64 }{
		{0.50, 983}, {0.75, 2513}, {0.95, 3883}, {0.98, 4510}, {0.99, 5956}, {0.999, 7688},
	} {
		require.InEpsilon(t, test.millis, latencies[int(test.share*draws)], 0.03, "p%v", test.share*100)
	}
	require.InDelta(t, 233, latencies[0], 1)
	require.GreaterOrEqual(t, latencies[0], 233.0)
	require.InDelta(t, 7701, latencies[draws-1], 1)
	require.LessOrEqual(t, latencies[draws-1], 7701.0)
	require.InDelta(t, 1628, sum/draws, 10)
}

func TestLatencyIsRepeatableWithASeed(t *testing.T) {
	t.Parallel()
	series := func(seed uint64) (latencies []time.Duration) {
		simulator := New(Config{Latency: OriginalLatency(1), Seed: seed})
		for range 20 {
			latencies = append(latencies, simulator.arrive().latency)
		}
		return latencies
	}
	require.Equal(t, series(7), series(7))
	require.NotEqual(t, series(7), series(8))
	require.NotEqual(t, series(0), series(0))
}

func TestParseLatency(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Latency{
		"original": OriginalLatency(1), "original*0.1": OriginalLatency(0.1), "original*10": OriginalLatency(10),
		"0": {}, "50ms": FixedLatency(50 * time.Millisecond), "1.5s": FixedLatency(1500 * time.Millisecond),
	} {
		got, err := ParseLatency(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "50", "-1ms", "Original", "original*", "original*0", "original*-1", "original*11", "original*NaN", "original*x", "fast"} {
		_, err := ParseLatency(text)
		require.ErrorContains(t, err, "latency", text)
	}
}

func TestLatencyRange(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	scaled := OriginalLatency(0.1)
	for range 10_000 {
		latency := scaled.draw(random)
		require.GreaterOrEqual(t, latency, 23300*time.Microsecond)
		require.LessOrEqual(t, latency, 770100*time.Microsecond)
	}
	require.Equal(t, time.Second, FixedLatency(time.Second).draw(random))
	require.Zero(t, Latency{}.draw(random))
}
