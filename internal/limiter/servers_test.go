package limiter

import (
	"context"
	"log/slog"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/redistest"
	"pushq/internal/testenv"
)

const (
	paceKey     = "{test}:pace"
	brakeKey    = "{test}:brake"
	overrideKey = "{test}:override"
)

var testKeys = Keys{Pace: paceKey, Brake: brakeKey, Override: overrideKey}

// startLimiter starts a limiter with its own connections, as a process has.
func startLimiter(t testing.TB, url string, delay time.Duration) *Limiter {
	t.Helper()
	l := Start(redistest.Connect(t, url), Options{Keys: testKeys, Delay: delay, Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(l.Stop)
	return l
}

// requireThrottled tells the limiter of a 429 about everybody.
func requireThrottled(t testing.TB, l *Limiter, pause time.Duration) {
	t.Helper()
	alone, err := l.Throttled(t.Context(), Throttle{Pause: pause, Answer: "429"})
	require.NoError(t, err)
	require.False(t, alone)
}

// scriptCalls is how many times a server has run a script.
func scriptCalls(t testing.TB, server *testenv.Redis) int {
	t.Helper()
	info, err := server.Client(t).Info(t.Context(), "commandstats").Result()
	require.NoError(t, err)
	total := 0
	for _, found := range regexp.MustCompile(`cmdstat_eval(?:sha)?:calls=(\d+)`).FindAllStringSubmatch(info, -1) {
		calls, err := strconv.Atoi(found[1])
		require.NoError(t, err)
		total += calls
	}
	return total
}

// crowd are goroutines that take one slot after the other.
type crowd struct {
	mutex sync.Mutex
	slots []Slot
}

// gather starts a crowd at some limiters that ends with the test.
func gather(t testing.TB, size int, class Class, limiters ...*Limiter) *crowd {
	c := &crowd{}
	ctx, cancel := context.WithCancel(context.Background())
	var members sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		members.Wait()
	})
	for _, l := range limiters {
		for range size {
			members.Go(func() {
				for ctx.Err() == nil {
					slot, err := l.Wait(ctx, class)
					if err != nil {
						select { // a slot is not to be had at once
						case <-ctx.Done():
						case <-time.After(20 * time.Millisecond):
						}
						continue
					}
					c.mutex.Lock()
					c.slots = append(c.slots, slot)
					c.mutex.Unlock()
				}
			})
		}
	}
	return c
}

// taken returns the slots so far by their time.
func (c *crowd) taken() []Slot {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return slices.SortedFunc(slices.Values(c.slots), func(a, b Slot) int { return a.RedisAt.Compare(b.RedisAt) })
}

func (c *crowd) waitFor(t testing.TB, count int) []Slot {
	t.Helper()
	testenv.Eventually(t, 20*time.Second, strconv.Itoa(count)+" slots", func() bool { return len(c.taken()) >= count })
	return c.taken()
}

func requireApart(t testing.TB, slots []Slot, delay time.Duration) {
	t.Helper()
	for i := 1; i < len(slots); i++ {
		require.GreaterOrEqual(t, slots[i].RedisAt.Sub(slots[i-1].RedisAt), delay, "slots %d and %d of %d", i-1, i, len(slots))
	}
}
