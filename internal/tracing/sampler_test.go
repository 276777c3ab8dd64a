package tracing

import (
	"crypto/rand"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// A UUID of version 4 has its version and variant where other ids are random.
func uuid() (id trace.TraceID) {
	_, _ = rand.Read(id[:])
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	return id
}

func TestAPartOfTheTracesIsTaken(t *testing.T) {
	t.Parallel()
	const traces = 20_000
	for _, ratio := range []float64{0, 0.01, 0.1, 0.4, 0.9, 1} {
		taken := 0
		for range traces {
			asked := sdktrace.SamplingParameters{ParentContext: t.Context(), TraceID: uuid()}
			decision := newRatioSampler(ratio).ShouldSample(asked).Decision
			require.Equal(t, decision, newRatioSampler(ratio).ShouldSample(asked).Decision, "the same in every process")
			if decision == sdktrace.RecordAndSample {
				taken++
			}
		}
		deviation := math.Sqrt(traces * ratio * (1 - ratio))
		require.InDelta(t, traces*ratio, taken, 6*deviation, "%g", ratio)
	}
}
