package api

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/testenv"
)

func (s *testService) scrape() testenv.Scrape {
	s.t.Helper()
	return testenv.ScrapeURL(s.t, "http://"+s.address+"/metrics")
}

func TestMetricsAreBehindTheKey(t *testing.T) {
	t.Parallel()
	s := prepareService(t)
	s.options.APIKeys = map[string]string{"prometheus": canaryAPIKey}
	s.start()
	require.Equal(t, http.StatusUnauthorized, s.get("/metrics").status)
	require.Equal(t, http.StatusUnauthorized, s.get("/metrics", "Authorization", "Bearer other").status)
	got := s.get("/metrics", "Authorization", "Bearer "+canaryAPIKey)
	require.Equal(t, http.StatusOK, got.status)
	require.True(t, strings.HasPrefix(got.header.Get("Content-Type"), "text/plain"), got.header)
	require.Equal(t, http.StatusMethodNotAllowed, s.send(http.MethodPost, "/metrics", nil, "Authorization", "Bearer "+canaryAPIKey).status)
}

func TestProcessThatOnlyWorksServesMetrics(t *testing.T) {
	t.Parallel()
	s := prepareService(t)
	s.options.Intake, s.options.Reader = nil, nil
	s.start()
	require.Contains(t, s.scrape().Series, "pushq_unmapped_total")
}

func TestReceivedPushesAreCounted(t *testing.T) {
	t.Parallel()
	redis := testenv.StartRedis(t)
	proxy := testenv.NewProxy(t, redis.Addr())
	s := prepareServiceBehind(t, redis, proxy.URL()).start()
	require.Empty(t, s.scrape().Family("pushq_received_total"))

	s.accept(push())
	s.accept(push("cronExpression", `"* * * * * ?"`))
	s.accept(push("cronExpression", `"0 0 10 * * ?"`))
	s.accept(push("messagePrototypeKey", `"Nobody knows"`))
	// Repeated, a keyed push is one push.
	for range 3 {
		s.accept(push(), idempotencyKeyHeader, "key")
	}
	require.Equal(t, http.StatusConflict, s.post(push("message", `"other"`), idempotencyKeyHeader, "key").status)
	require.Equal(t, http.StatusBadRequest, s.post("{").status)
	require.Equal(t, http.StatusBadRequest, s.post(push("cronExpression", `"x"`)).status)
	scrape := s.scrape()
	require.Equal(t, map[string]float64{`kind="immediate"`: 3, `kind="scheduled"`: 2}, scrape.Family("pushq_received_total"))
	require.Equal(t, 2.0, scrape.Series["pushq_replayed_total"])
	require.Equal(t, 1.0, scrape.Series["pushq_unmapped_total"])
	require.Empty(t, scrape.Family("pushq_store_errors_total"))
	require.Equal(t, 9.0, scrape.Series["pushq_receiving_seconds_count"], "all but the one that is no JSON")
	requireNoCanary(t, scrape.Text, "a scrape")
	require.NotContains(t, scrape.Text, "Nobody knows")

	proxy.Refuse(true)
	require.Equal(t, http.StatusServiceUnavailable, s.post(push()).status)
	proxy.Refuse(false)
	proxy.Blackhole(true)
	require.Equal(t, http.StatusServiceUnavailable, s.post(push(), idempotencyKeyHeader, "other").status)
	proxy.Blackhole(false)
	started := time.Now()
	scrape = s.scrape()
	require.Less(t, time.Since(started), time.Minute)
	require.Equal(t, 2.0, scrape.Series[`pushq_store_errors_total{stage="receiving"}`])
	require.Equal(t, 11.0, scrape.Series["pushq_receiving_seconds_count"])
	require.Equal(t, 3.0, scrape.Series[`pushq_received_total{kind="immediate"}`])
}
