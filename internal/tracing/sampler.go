package tracing

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// A ratioSampler takes a part of the traces, the same ones in every process. It goes by a
// digest of the trace id. OpenTelemetry's own goes by some of its bits, and those of an id
// that a sender has made need not be random: a UUID has its version and variant there.
type ratioSampler struct {
	ratio float64
	below uint64
}

const digestBits = 53 // as many as a float64 counts exactly

func newRatioSampler(ratio float64) ratioSampler {
	return ratioSampler{ratio: ratio, below: uint64(ratio * (1 << digestBits))}
}

// ShouldSample decides about a trace that begins here.
func (s ratioSampler) ShouldSample(asked sdktrace.SamplingParameters) sdktrace.SamplingResult {
	digest := sha256.Sum256(asked.TraceID[:])
	decision := sdktrace.Drop
	if binary.BigEndian.Uint64(digest[:])>>(64-digestBits) < s.below {
		decision = sdktrace.RecordAndSample
	}
	return sdktrace.SamplingResult{
		Decision: decision, Tracestate: trace.SpanContextFromContext(asked.ParentContext).TraceState(),
	}
}

// Description names the sampler, for OpenTelemetry.
func (s ratioSampler) Description() string { return fmt.Sprintf("pushq ratio %g", s.ratio) }
