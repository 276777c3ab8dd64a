package follow

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// A batch is the entries of one read that are still to be dealt with. No other follower
// takes them over meanwhile.
type batch struct {
	stop func() // ends that

	mutex   sync.Mutex
	entries []Entry
}

// hold shows that this follower lives and holds the entries, until stop is called.
func (f *Follower) hold(ctx context.Context, entries []Entry) *batch {
	ctx, cancel := context.WithCancel(ctx)
	held := &batch{entries: entries}
	var showing sync.WaitGroup
	held.stop = func() {
		cancel()
		showing.Wait()
	}
	showing.Go(func() {
		ticker := time.NewTicker(f.silence / 4)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				f.claim(ctx, held.all())
			}
		}
	})
	return held
}

// claim makes entries this follower's, as of now. If it fails, others may handle them too.
func (f *Follower) claim(ctx context.Context, entries []Entry) {
	if len(entries) == 0 {
		return
	}
	_ = f.redis.XClaimJustID(ctx, &redis.XClaimArgs{
		Stream: f.Stream, Group: f.Group, Consumer: f.consumer, Messages: streamIDs(entries),
	}).Err()
}

func (b *batch) all() []Entry {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.entries
}

// drop lets the first entries go.
func (b *batch) drop(count int) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.entries = b.entries[count:]
}
