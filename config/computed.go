package config

import (
	"math"
	"time"
)

// maxConcurrency is the largest number of pushes in work at a time, for each
// process and queue; `swrve.concurrency` has the same limit.
const maxConcurrency = 5000

// Delay is the least time between two starts.
func (s Swrve) Delay() time.Duration { return delay(s.DelayMillis) }

// Delay is the least time between two starts.
func (f FCM) Delay() time.Duration { return delay(f.DelayMillis) }

// delay is in whole microseconds. It is rounded up: rounding 3.3333 ms down would exceed
// 300 starts a second.
func delay(millis float64) time.Duration {
	// 2.007 * 1000 is a little more than 2007 in binary; that is not a fraction
	// of a microsecond that anybody asked for.
	const binaryNoise = 1e-6
	return time.Duration(math.Ceil(millis*1000-binaryNoise)) * time.Microsecond
}

// AverageProcessing is how long a request takes on average.
func (s Swrve) AverageProcessing() time.Duration {
	return time.Duration(s.AverageProcessingMillis) * time.Millisecond
}

// Timeout is how long a request may take.
func (f FCM) Timeout() time.Duration {
	return time.Duration(f.TimeoutMillis) * time.Millisecond
}

// Timeout is how long a request may take.
func (s Swrve) Timeout() time.Duration {
	return time.Duration(s.TimeoutMillis) * time.Millisecond
}

// Timeout is how long a request may take.
func (t Template) Timeout() time.Duration {
	return time.Duration(t.TimeoutMillis) * time.Millisecond
}

// EffectiveConcurrency is the number of pushes in work at a time, for each
// process and queue: Concurrency, or if that is 0 as many as are in work on
// average at full pace, 1 to 5000.
func (s Swrve) EffectiveConcurrency() int {
	if s.Concurrency > 0 {
		return s.Concurrency
	}
	delay := max(s.Delay(), time.Microsecond)
	inWork := (s.AverageProcessing() + delay - 1) / delay
	return int(min(max(inWork, 1), maxConcurrency))
}

// Delay is the least time between a failed attempt and the next one.
func (r Retry) Delay() time.Duration {
	return time.Duration(r.DelayInSeconds) * time.Second
}

// AnyHost reports whether callers without a key may use any name for this server. By
// default they may not, for that of a web page is none of this host's; where everybody is
// let in, or a certificate is asked for, they may.
func (h HTTP) AnyHost() bool { return h.AllowAnonymous || h.TLS.CA != "" }
