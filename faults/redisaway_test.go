package faults

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/swrvesim"
	"pushq/internal/testenv"
)

// Nobody reaches Redis for a while, in the middle of sending: longer, at full
// length, than asynq's leases last.
func TestRedisIsUnreachable(t *testing.T) {
	t.Parallel()
	for _, network := range []struct {
		name string
		set  func(proxy *testenv.Proxy, away bool)
	}{
		{"refused", (*testenv.Proxy).Refuse},
		{"silent", (*testenv.Proxy).Blackhole},
	} {
		t.Run(network.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, swrvesim.Config{Latency: swrvesim.FixedLatency(time.Second)})
			proxy := testenv.NewProxy(t, w.Redis.Addr())
			w.RedisURL = proxy.URL()
			api := w.start("api")
			w.start("worker", "SWRVE_DELAYMILLIS=20")
			w.start("worker", "SWRVE_DELAYMILLIS=20")
			callers := newCallers(t)
			stop := callers.postEvery(40*time.Millisecond, api.URL())
			testenv.Eventually(t, 20*time.Second, "pushes to be sent", func() bool { return w.Swrve.Stats().Requests >= 50 })

			network.set(proxy, true)
			began := time.Now()
			time.Sleep(length(10*time.Second, time.Minute))
			ended := time.Now()
			network.set(proxy, false)

			api.WaitReady()
			back := time.Now()
			testenv.Eventually(t, 20*time.Second, "pushes to be accepted again", func() bool {
				accepted := callers.accepted()
				return accepted[len(accepted)-1].posted.After(back)
			})
			stop()

			// Slots in hand may be used yet, and no others.
			const slotsInHand = 4 * time.Second
			require.Zero(t, w.Arrivals(began.Add(slotsInHand), ended), "nothing is sent without a slot")
			for _, posting := range callers.all() {
				if posting.posted.After(began) && posting.answered.Before(ended) {
					require.Equal(t, http.StatusServiceUnavailable, posting.status)
					require.Less(t, posting.answered.Sub(posting.posted), time.Minute)
				}
			}
			w.waitUntilEnded(callers, api, recoveryTimeout)
			t.Logf("all SENT %.1f s after Redis was back", time.Since(ended).Seconds())
			account := w.reckon(callers, api)
			require.Equal(t, account.accepted, account.sent)
			require.Zero(t, account.duplicates, "answers that came meanwhile were recorded when Redis was back")
			require.Positive(t, account.refused+account.unknown)
		})
	}
}
