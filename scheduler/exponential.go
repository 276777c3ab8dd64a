package scheduler

import (
	"math/rand/v2"
	"time"
)

// Exponential waits First after the first attempt and twice as long after each further
// one, within Floor and Cap, and a random part more, so that pushes that have failed
// together do not come back together.
type Exponential struct {
	First time.Duration
	// Floor and Cap bound the delay, without its random part. A Cap of zero is none.
	Floor, Cap time.Duration
	// Jitter is the random part at most: 0.2 adds up to a fifth.
	Jitter float64
}

// After returns when the next attempt may be made, never earlier than the delay.
func (e Exponential) After(attempt int, finishedAt time.Time) time.Time {
	delay := e.delay(attempt)
	return finishedAt.Add(delay + time.Duration(rand.Float64()*e.Jitter*float64(delay)))
}

func (e Exponential) delay(attempt int) time.Duration {
	delay := e.First
	for range max(attempt, 1) - 1 {
		if delay > longest/2 || e.Cap > 0 && delay >= e.Cap {
			break
		}
		delay *= 2
	}
	delay = max(delay, e.Floor)
	if e.Cap > 0 {
		delay = min(delay, e.Cap)
	}
	return delay
}

// longest is more than anybody waits, and doubled still a Duration.
const longest = 365 * 24 * time.Hour
