package follow

import (
	"context"
	"math/rand/v2"
	"time"
)

// A backoff is a wait that doubles each time, from first to longest, and is by chance up
// to a half longer or shorter.
type backoff struct {
	first, longest time.Duration
	next           time.Duration // 0 is first
}

func (b *backoff) reset() { b.next = 0 }

// wait reports whether ctx has not ended meanwhile.
func (b *backoff) wait(ctx context.Context) bool {
	pause := max(b.next, b.first)
	b.next = min(2*pause, b.longest)
	timer := time.NewTimer(min(pause/2+rand.N(pause), b.longest))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
