package tracing

import (
	"encoding/hex"
	"strings"

	"go.opentelemetry.io/otel/trace"
)

// Where the parts of a traceparent are: version-traceid-spanid-flags.
const (
	versionEnd   = 2
	traceStart   = 3
	traceEnd     = 35
	spanStart    = 36
	spanEnd      = 52
	flagsStart   = 53
	parentLength = 55

	futureVersion = 0xff // never a version

	// knownFlags are those that version 00 has: sampled, and random trace id.
	knownFlags = 0x03

	// maxState is how much of a tracestate W3C asks to pass on at least. pushq keeps it
	// with the push, so it passes on no more.
	maxState = 512
)

// parseParent reads a traceparent. Of a version to come it takes what 00 has, too.
func parseParent(text string) (parent trace.SpanContextConfig, valid bool) {
	none := trace.SpanContextConfig{}
	if len(text) < parentLength || text[versionEnd] != '-' || text[traceEnd] != '-' || text[spanEnd] != '-' {
		return none, false
	}
	version, valid := parseByte(text[:versionEnd])
	if !valid || version == futureVersion {
		return none, false
	}
	if rest := text[parentLength:]; rest != "" && (version == 0 || rest[0] != '-') {
		return none, false
	}
	flags, valid := parseByte(text[flagsStart:parentLength])
	if !valid {
		return none, false
	}
	var err error
	if parent.TraceID, err = trace.TraceIDFromHex(text[traceStart:traceEnd]); err != nil {
		return none, false
	}
	if parent.SpanID, err = trace.SpanIDFromHex(text[spanStart:spanEnd]); err != nil {
		return none, false
	}
	parent.TraceFlags = trace.TraceFlags(flags)
	return parent, true
}

// parseByte reads two hexadecimal digits, of which capitals are none for W3C.
func parseByte(digits string) (value byte, valid bool) {
	var read [1]byte
	_, err := hex.Decode(read[:], []byte(digits))
	return read[0], err == nil && digits == strings.ToLower(digits)
}

func formatParent(parent trace.SpanContext) string {
	flags := byte(parent.TraceFlags()) & knownFlags
	return "00-" + parent.TraceID().String() + "-" + parent.SpanID().String() + "-" + hex.EncodeToString([]byte{flags})
}

// validState returns a tracestate that can be passed on, or "".
func validState(text string) string {
	if text == "" || len(text) > maxState {
		return ""
	}
	state, err := trace.ParseTraceState(text)
	if err != nil {
		return ""
	}
	return state.String()
}

// parseID reads a sender's id that has the form of W3C's: a UUID, or 32 hexadecimal
// digits.
func parseID(text string) (id trace.TraceID, valid bool) {
	digits := text
	if len(text) == 36 && text[8] == '-' && text[13] == '-' && text[18] == '-' && text[23] == '-' {
		digits = text[:8] + text[9:13] + text[14:18] + text[19:23] + text[24:]
	}
	id, err := trace.TraceIDFromHex(strings.ToLower(digits))
	return id, err == nil
}
