package metrics_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/breaker"
	"pushq/internal/follow"
	"pushq/internal/history"
	"pushq/internal/metrics"
	"pushq/internal/template"
	"pushq/internal/testenv"
)

func TestBreakersAndFollowersAreAskedFor(t *testing.T) {
	t.Parallel()
	var fault error
	m := metrics.New("1.2.3", slog.New(slog.DiscardHandler))
	m.FollowBreakers("fcm", []string{"fcm", "template_service"}, func(context.Context) ([]breaker.Status, error) {
		return []breaker.Status{{State: breaker.HalfOpen, Refused: true}, {State: breaker.Closed}}, fault
	})
	m.FollowFollowers(func(context.Context) ([]metrics.Follower, error) {
		return []metrics.Follower{
			{Channel: "swrve", Name: "history"}, {Channel: "fcm", Name: "failed", Backlog: follow.Backlog{Entries: 7, Oldest: 90 * time.Second}},
		}, fault
	})
	m.BreakerOpens("fcm").Inc()
	scrape := testenv.ScrapeHandler(t, m.Handler())
	require.Equal(t, map[string]float64{
		`service="fcm",state="half_open"`: 1, `service="template_service",state="closed"`: 1,
	}, scrape.Family("pushq_breaker_state"))
	require.Contains(t, scrape.Series, `pushq_breaker_state{service="fcm",state="open"}`)
	require.Equal(t, map[string]float64{`channel="fcm",service="fcm"`: 1}, scrape.Family("pushq_provider_refused"))
	require.Contains(t, scrape.Series, `pushq_provider_refused{channel="fcm",service="template_service"}`)
	require.Equal(t, 1.0, scrape.Series[`pushq_breaker_opens_total{service="fcm"}`])
	require.Contains(t, scrape.Series, `pushq_breaker_opens_total{service="template_service"}`)
	require.Equal(t, map[string]float64{`channel="fcm",follower="failed"`: 7}, scrape.Family("pushq_follow_backlog"))
	require.Equal(t, map[string]float64{`channel="fcm",follower="failed"`: 90}, scrape.Family("pushq_follow_oldest_seconds"))
	require.Contains(t, scrape.Series, `pushq_follow_backlog{channel="swrve",follower="history"}`)
	require.Empty(t, scrape.Family("pushq_scrape_errors_total"))

	fault = errors.New("redis: connection refused")
	testenv.ScrapeHandler(t, m.Handler())
	scrape = testenv.ScrapeHandler(t, m.Handler()) // a fault of a scrape is seen in the next one
	require.Empty(t, scrape.Family("pushq_breaker_state"))
	require.NotContains(t, scrape.Text, "pushq_follow_backlog")
	require.Positive(t, scrape.Series[`pushq_scrape_errors_total{part="breakers"}`])
	require.Positive(t, scrape.Series[`pushq_scrape_errors_total{part="followers"}`])
}

type consumer struct{ trouble error }

func (c consumer) Connected() bool             { return c.trouble == nil }
func (c consumer) OldestInHand() time.Duration { return 90 * time.Second }
func (c consumer) Reconnects() int             { return 3 }

type database struct {
	check func(context.Context) error
}

func (d database) Check(ctx context.Context) error { return d.check(ctx) }
func (d database) Stats() history.Stats            { return history.Stats{Written: 5, PutAside: 1, Failures: 2} }

func TestWhetherOthersAreConnected(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		trouble   error
		check     func(context.Context) error
		connected float64
	}{
		"all well": {nil, func(context.Context) error { return nil }, 1},
		"away":     {errors.New("away"), func(context.Context) error { return errors.New("away") }, 0},
		"silent":   {errors.New("away"), func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, 0},
		"panics":   {errors.New("away"), func(context.Context) error { panic("boom") }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := metrics.New("1.2.3", slog.New(slog.DiscardHandler))
			m.FollowConsumer(consumer{test.trouble})
			m.FollowHistory(database{test.check})
			started := time.Now()
			series := testenv.ScrapeHandler(t, m.Handler()).Series
			require.Less(t, time.Since(started), time.Minute, "bounded")
			require.Equal(t, test.connected, series["pushq_rabbitmq_connected"])
			require.Equal(t, test.connected, series["pushq_history_connected"])
			require.Equal(t, 90.0, series["pushq_rabbitmq_oldest_in_hand_seconds"])
			require.Equal(t, 3.0, series["pushq_rabbitmq_reconnects_total"])
			require.Equal(t, 5.0, series[`pushq_history_records_total{result="written"}`])
			require.Equal(t, 1.0, series[`pushq_history_records_total{result="put_aside"}`])
			require.Equal(t, 2.0, series["pushq_history_failed_transactions_total"])
		})
	}
}

// An alert needs no first event to see a rise.
func TestCountersAreThereFromTheStart(t *testing.T) {
	t.Parallel()
	m := metrics.New("1.2.3", slog.New(slog.DiscardHandler))
	series := testenv.ScrapeHandler(t, m.Handler()).Series
	for _, name := range []string{
		`pushq_rabbitmq_messages_total{result="stored"}`, `pushq_rabbitmq_messages_total{result="replayed"}`,
		`pushq_rabbitmq_messages_total{result="refused"}`, `pushq_rabbitmq_failures_published_total`,
		`pushq_template_lookups_total{result="stale"}`, `pushq_template_requests_total{outcome="unavailable"}`,
		`pushq_access_token_fetches_total{outcome="refused"}`,
	} {
		require.Contains(t, series, name)
	}
	m.Templates.LookedUp(template.Hit)
	m.Templates.Requested(template.NotThere)
	m.TokenFetch(metrics.TokenFetched)
	scrape := testenv.ScrapeHandler(t, m.Handler())
	require.Equal(t, map[string]float64{`result="hit"`: 1}, scrape.Family("pushq_template_lookups_total"))
	require.Equal(t, map[string]float64{`outcome="not_found"`: 1}, scrape.Family("pushq_template_requests_total"))
	require.Equal(t, map[string]float64{`outcome="ok"`: 1}, scrape.Family("pushq_access_token_fetches_total"))
}
