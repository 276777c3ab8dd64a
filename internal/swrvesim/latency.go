package swrvesim

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// Latency is the time that the simulator takes to answer: fixed, or drawn anew
// for each request. The zero value answers at once.
type Latency struct {
	fixed time.Duration
	// scale multiplies the original distribution; 0 means that fixed applies.
	scale float64
}

// FixedLatency makes every answer take the same time.
func FixedLatency(latency time.Duration) Latency {
	return Latency{fixed: latency}
}

// OriginalLatency draws from the response times of Swrve in the original
// service's load test of 200,000 pushes, multiplied by scale, which is above 0;
// 1 is as measured. Between the published percentiles it is linear, so its mean
// is 1,628 ms where the test's was 1,541 ms.
func OriginalLatency(scale float64) Latency {
	return Latency{scale: scale}
}

// ParseLatency reads "original", "original*0.1" (any factor above 0 and up to
// 10), "0" or a duration such as "50ms".
func ParseLatency(text string) (Latency, error) {
	if text == "original" {
		return OriginalLatency(1), nil
	}
	if factor, found := strings.CutPrefix(text, "original*"); found {
		scale, err := strconv.ParseFloat(factor, 64)
		if err != nil || !(scale > 0 && scale <= 10) {
			return Latency{}, fmt.Errorf("latency %q: the factor must be a number above 0 and up to 10", text)
		}
		return OriginalLatency(scale), nil
	}
	fixed, err := time.ParseDuration(text)
	if err != nil || fixed < 0 {
		return Latency{}, fmt.Errorf(`latency %q: use "original", "original*0.1", "0" or a duration such as "50ms"`, text)
	}
	return FixedLatency(fixed), nil
}

// originalPercentiles is the published result of the original load test.
var originalPercentiles = []struct {
	share  float64
	millis float64
}{
	{0, 233}, {0.50, 983}, {0.75, 2513}, {0.95, 3883},
	{0.98, 4510}, {0.99, 5956}, {0.999, 7688}, {1, 7701},
}

func (l Latency) draw(random *rand.Rand) time.Duration {
	if l.scale == 0 {
		return l.fixed
	}
	share := random.Float64()
	upper := 1
	for share > originalPercentiles[upper].share {
		upper++
	}
	from, to := originalPercentiles[upper-1], originalPercentiles[upper]
	millis := from.millis + (to.millis-from.millis)*(share-from.share)/(to.share-from.share)
	return time.Duration(l.scale * millis * float64(time.Millisecond))
}
