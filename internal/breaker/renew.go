package breaker

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"
)

// A permit is looked at every fifth of the time after which it is forgotten, and renewed
// if it is as old as that: one that is given back at once costs nothing. It is of no use
// any more before Redis forgets it.
const (
	renewals = 5 // in the time after which a permit is forgotten
	// renewedAtOnce bounds how long one call keeps Redis.
	renewedAtOnce = 500
)

// lapse is how long a permit is of use without being renewed.
func (b *Breaker) lapse() time.Duration { return b.Forget * 2 / 3 }

// Run renews the permits of this process until ctx ends.
func (b *Breaker) Run(ctx context.Context) {
	ticker := time.NewTicker(b.Forget / renewals)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			b.renew(ctx)
		}
	}
}

// renew renews the permits that are not new. What fails is tried again next time.
func (b *Breaker) renew(ctx context.Context) {
	for permits := range slices.Chunk(b.old(), renewedAtOnce) {
		names := make([]string, len(permits))
		for place, permit := range permits {
			names[place] = permit.call
		}
		asked := time.Now()
		if _, err := b.run(ctx, "renew", strings.Join(names, " "), ""); err != nil {
			if ctx.Err() == nil {
				b.Log.Warn("permits of a circuit breaker were not renewed", slog.String("service", b.Service), slog.Any("error", err))
			}
			return
		}
		b.renewed(asked, permits)
	}
}

// old returns the permits that are to be renewed: not those that have lapsed, because the
// process or Redis has stood still. Others may have got the permission in their place.
func (b *Breaker) old() (permits []*Permit) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	for permit, renewed := range b.permits {
		if age := time.Since(renewed); age >= b.Forget/renewals && age < b.lapse() {
			permits = append(permits, permit)
		}
	}
	return permits
}

func (b *Breaker) renewed(at time.Time, permits []*Permit) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	for _, permit := range permits {
		if _, out := b.permits[permit]; out {
			b.permits[permit] = at
		}
	}
}

// hold keeps a new permit, unless the state in which it was given is over already.
func (b *Breaker) hold(since time.Time, permit *Permit, generation int64) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if generation == b.generation {
		b.permits[permit] = since
	}
}

func (b *Breaker) drop(permit *Permit) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	delete(b.permits, permit)
}

// Lapsed reports whether the call must not be made any more: the process has seen since
// that the breaker is in another state, or the permit was not renewed for so long, because
// the process or Redis has stood still, that others may soon get the permission in its
// place.
func (p *Permit) Lapsed() bool {
	p.breaker.mutex.Lock()
	defer p.breaker.mutex.Unlock()
	return time.Since(p.breaker.permits[p]) >= p.breaker.lapse()
}
