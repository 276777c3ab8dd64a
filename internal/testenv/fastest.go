package testenv

import "time"

// Fastest makes a call again and again until one takes less than limit, at most so many
// times, and returns how long the shortest one took. On a busy machine any call may take
// long, but not all of them, unless they wait for something.
func Fastest(times int, limit time.Duration, call func()) time.Duration {
	var shortest time.Duration
	for made := range times {
		began := time.Now()
		call()
		if took := time.Since(began); made == 0 || took < shortest {
			shortest = took
		}
		if shortest < limit {
			break
		}
	}
	return shortest
}
