package limiter

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/testenv"
)

func TestWithoutRedisNobodyGetsASlot(t *testing.T) {
	t.Parallel()
	const delay = 2 * time.Millisecond
	for name, outage := range map[string]struct{ begin, end func(*testenv.Redis) }{
		"stopped": {(*testenv.Redis).Stop, (*testenv.Redis).Start},
		"frozen":  {(*testenv.Redis).Freeze, (*testenv.Redis).Thaw},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testenv.StartRedis(t)
			l := startLimiter(t, server.URL(), delay)
			c := gather(t, 20, Immediate, l)
			c.waitFor(t, 20)
			outage.begin(server)
			began := time.Now()
			// Those in hand may still be used; they are no more than a second's.
			time.Sleep(1500 * time.Millisecond)
			before := len(c.taken())
			for _, slot := range c.taken() {
				require.Less(t, slot.RedisAt.Sub(began), time.Second)
			}
			outage.end(server)
			requireApart(t, c.waitFor(t, before+20), delay)
		})
	}
}

func TestStopWhileRedisIsFrozen(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	l := startLimiter(t, server.URL(), 2*time.Millisecond)
	_, err := l.Wait(t.Context(), Immediate)
	require.NoError(t, err)
	server.Freeze()
	defer server.Thaw()
	waiting := waitInBackground(t.Context(), l, Immediate)
	eventuallyWaiting(t, l, Immediate, 1)
	started := time.Now()
	l.Stop()
	require.ErrorIs(t, receive(t, "the waiter", waiting).err, ErrStopped)
	require.Less(t, time.Since(started), time.Minute, "the timeout of one command")
}
