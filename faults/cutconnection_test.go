package faults

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/swrvesim"
)

// Every connection to Redis breaks after so many bytes, in the middle of a
// request or of a reply: whatever the commands are, each may have been executed
// or not.
func TestConnectionsBreakAllTheTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{Latency: swrvesim.FixedLatency(200 * time.Millisecond)})
	proxy := startToxiproxy(t, w.Redis.Addr())
	w.RedisURL = "redis://" + proxy.Listen + "/0"
	api := w.start("api")
	w.start("worker", "SWRVE_DELAYMILLIS=8")
	w.start("worker", "SWRVE_DELAYMILLIS=8")
	callers := newCallers(t)
	stop := callers.postEvery(20*time.Millisecond, api.URL())
	var breaks []string
	for _, toxic := range []string{
		`{"type":"limit_data","stream":"upstream","attributes":{"bytes":9000}}`,
		`{"type":"limit_data","stream":"downstream","attributes":{"bytes":7000}}`,
	} {
		added, err := proxy.Toxics.AddToxicJson(strings.NewReader(toxic))
		require.NoError(t, err)
		breaks = append(breaks, added.Name)
	}
	time.Sleep(length(10*time.Second, time.Minute))
	for _, name := range breaks {
		require.NoError(t, proxy.Toxics.RemoveToxic(t.Context(), name))
	}
	stop()

	w.waitUntilEnded(callers, api, recoveryTimeout)
	account := w.reckon(callers, api)
	require.Equal(t, account.accepted, account.sent)
	require.Zero(t, account.duplicates, "the way to the provider was open all the time")
	require.Positive(t, account.unknown, "enqueues were among what was cut off")
	connections := w.Redis.Client(t).InfoMap(t.Context(), "stats").Item("Stats", "total_connections_received")
	t.Logf("%s connections to Redis", connections)
}
