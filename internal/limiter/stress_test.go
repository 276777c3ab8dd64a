package limiter

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/testenv"
)

// Everything at once, by chance. Afterwards no slot was used twice, everybody
// has gone home, and the limiter would still have served.
func TestStress(t *testing.T) {
	t.Parallel()
	const delay = time.Millisecond
	server := testenv.StartRedis(t)
	proxy := testenv.NewProxy(t, server.Addr())
	limiters := []*Limiter{startLimiter(t, proxy.URL(), delay), startLimiter(t, server.URL(), delay)}
	kept := &crowd{}
	var members sync.WaitGroup
	finish := time.Now().Add(2500 * time.Millisecond)
	for _, l := range limiters {
		for range 40 {
			members.Go(func() {
				for time.Now().Before(finish) {
					ctx, cancel := context.WithTimeout(t.Context(), rand.N(60*time.Millisecond))
					slot, err := l.Wait(ctx, rand.N(classes))
					cancel()
					switch {
					case err != nil:
						if !errors.Is(err, context.DeadlineExceeded) {
							t.Errorf("unexpected: %v", err)
						}
					case rand.IntN(3) == 0:
						l.GiveBack(slot)
					case rand.IntN(100) == 0:
						if _, err := l.Throttled(t.Context(), Throttle{Pause: rand.N(50 * time.Millisecond)}); err != nil {
							t.Errorf("unexpected: %v", err)
						}
					default:
						kept.mutex.Lock()
						kept.slots = append(kept.slots, slot)
						kept.mutex.Unlock()
					}
				}
			})
		}
	}
	for time.Now().Before(finish) {
		proxy.SetLatency(rand.N(10 * time.Millisecond))
		proxy.CutReplyTo(reserveScript.Hash(), rand.IntN(2))
		time.Sleep(50 * time.Millisecond)
	}
	members.Wait()
	proxy.CutReplyTo(reserveScript.Hash(), 0)
	requireApart(t, kept.taken(), delay)
	require.Greater(t, len(kept.taken()), 30)
	for _, l := range limiters {
		require.Equal(t, [classes]int64{}, l.Stats().Waiting)
		_, err := l.Wait(t.Context(), Windowed)
		require.NoError(t, err, "it still serves")
		waiting := waitInBackground(t.Context(), l, Windowed)
		l.Stop()
		got := receive(t, "the last", waiting)
		require.True(t, got.err == nil || errors.Is(got.err, ErrStopped), got.err)
	}
}
