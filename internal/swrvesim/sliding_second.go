package swrvesim

import "time"

// slidingSecond counts arrivals in the second that ends now. Two arrivals
// exactly a second apart do not share one.
type slidingSecond struct {
	// arrivals are those of the latest second, oldest first.
	arrivals []time.Duration
	largest  int
}

// add notes an arrival, not earlier than the one before, and returns the number
// of arrivals in the second that ends with it, this one included.
func (s *slidingSecond) add(at time.Duration) int {
	expired := 0
	for expired < len(s.arrivals) && at-s.arrivals[expired] >= time.Second {
		expired++
	}
	s.arrivals = append(s.arrivals[expired:], at)
	s.largest = max(s.largest, len(s.arrivals))
	return len(s.arrivals)
}
