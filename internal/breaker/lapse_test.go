package breaker

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"pushq/internal/redistest"
	"pushq/internal/testenv"
)

// Whoever hears that the breaker has opened makes no call with a permit from before,
// however it hears of it.
func TestPermitsLapseWhenTheBreakerOpens(t *testing.T) {
	redistest.OnEveryServer(t, func(t *testing.T, client redis.UniversalClient) {
		process := func() *Breaker { return New(client, options("fcm")) }
		opener, asking, reporting, renewing := process(), process(), process(), process()
		own, asked, reported, renewed := allow(t, opener), allow(t, asking), allow(t, reporting), allow(t, renewing)
		another := allow(t, reporting)
		tell(t, own, Good) // others need not wait for those that are out
		own = allow(t, opener)
		tell(t, allow(t, opener), Good)
		trip(t, opener)
		require.True(t, own.Lapsed())
		for _, permit := range []*Permit{asked, reported, renewed} {
			require.False(t, permit.Lapsed(), "its process has not heard of it")
		}

		var open *OpenError
		_, err := asking.Allow(t.Context(), "")
		require.ErrorAs(t, err, &open)
		require.True(t, asked.Lapsed())

		tell(t, another, Good)
		require.True(t, reported.Lapsed())

		renewing.mutex.Lock()
		renewing.permits[renewed] = time.Now().Add(-renewing.Forget / 2)
		renewing.mutex.Unlock()
		renewing.renew(t.Context())
		require.True(t, renewed.Lapsed())
		require.Empty(t, renewing.permits)

		state, failures, err := opener.Read(t.Context())
		require.NoError(t, err)
		require.Equal(t, Open, state)
		require.Equal(t, opener.Failures, failures)
	})
}

func TestTheCallsOfAHalfOpenBreakerAreProbes(t *testing.T) {
	redistest.OnEveryServer(t, func(t *testing.T, client redis.UniversalClient) {
		own := options("fcm")
		own.OpenFor = 50 * time.Millisecond
		b := New(client, own)
		permit := allow(t, b)
		require.False(t, permit.Probe)
		tell(t, permit, Good)
		trip(t, New(client, options("fcm")))
		for range b.Successes {
			var probe *Permit
			testenv.Eventually(t, patience, "a probe", func() bool {
				var err error
				probe, err = b.Allow(t.Context(), "")
				return err == nil
			})
			require.True(t, probe.Probe)
			require.False(t, probe.Lapsed())
			tell(t, probe, Good)
		}
		after := allow(t, b)
		require.False(t, after.Probe)
		require.False(t, after.Lapsed())
	})
}

// A Redis that has forgotten the breaker begins to count anew.
func TestPermitsOfABreakerThatWasForgotten(t *testing.T) {
	redistest.OnEveryServer(t, func(t *testing.T, client redis.UniversalClient) {
		b := New(client, options("fcm"))
		trip(t, b)
		require.NoError(t, client.Del(t.Context(), b.Hash).Err())
		permit := allow(t, b)
		require.False(t, permit.Lapsed())
		tell(t, allow(t, b), Good)
		require.False(t, permit.Lapsed())
	})
}
