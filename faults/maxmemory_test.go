package faults

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"pushq/internal/swrvesim"
	"pushq/internal/testenv"
)

// Something fills Redis to its maxmemory under load: pushes are refused in time,
// and at the very limit nothing can be written at all.
func TestMaxmemoryIsReached(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{Latency: swrvesim.FixedLatency(time.Second)}, "--maxmemory", "40mb")
	api := w.start("api")
	callers := newCallers(t)
	callers.post(200, api.URL()) // some are left when Redis is full
	worker := w.start("worker", "SWRVE_DELAYMILLIS=50")
	stop := callers.postEvery(40*time.Millisecond, api.URL())
	testenv.Eventually(t, 20*time.Second, "pushes to be sent", func() bool { return w.Swrve.Stats().Requests >= 20 })

	client := w.Redis.Client(t)
	ballast := fill(t, client)
	// What Redis frees by itself must not make room.
	require.NoError(t, client.ConfigSet(t.Context(), "maxmemory", "20mb").Err())
	worker.WaitForLine("no attempt without redis", 20*time.Second)
	full := time.Now()
	time.Sleep(length(5*time.Second, time.Minute))
	emptied := time.Now()
	require.NoError(t, client.Del(t.Context(), ballast...).Err())
	testenv.Eventually(t, 20*time.Second, "pushes to be accepted again", func() bool {
		accepted := callers.accepted()
		return accepted[len(accepted)-1].posted.After(emptied)
	})
	stop()

	const noticed = 2 * time.Second
	for _, posting := range callers.all() {
		if posting.posted.After(full.Add(noticed)) && posting.answered.Before(emptied) {
			require.Equal(t, http.StatusServiceUnavailable, posting.status)
			require.False(t, posting.unknown, "a full Redis says so")
		}
	}
	require.Zero(t, w.Arrivals(full.Add(noticed), emptied), "nothing is sent without a record of it")
	w.waitUntilEnded(callers, api, recoveryTimeout)
	t.Logf("all SENT %.1f s after there was room again", time.Since(emptied).Seconds())
	account := w.reckon(callers, api)
	require.Equal(t, account.accepted, account.sent)
	require.Zero(t, account.duplicates)
	require.Positive(t, account.refused)
}

// fill writes until Redis takes no more, and returns the names of what it has
// written.
func fill(t *testing.T, client *redis.Client) (keys []string) {
	t.Helper()
	for size := 1 << 20; size > 0; {
		key := fmt.Sprintf("ballast:%d", len(keys))
		err := client.Set(t.Context(), key, strings.Repeat("x", size), 0).Err()
		if err != nil {
			require.ErrorContains(t, err, "OOM")
			size /= 2
			continue
		}
		keys = append(keys, key)
	}
	return keys
}
