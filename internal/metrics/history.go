package metrics

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"pushq/internal/history"
)

var (
	historyConnected = prometheus.NewDesc("pushq_history_connected",
		"1 if the history can be written: a server that takes writes has answered during this scrape, and has had room for the last rows.", nil, nil)
	historyRecords = prometheus.NewDesc("pushq_history_records_total",
		"Records that this process has written to the history: as what they tell, or put aside because they cannot be stored.", []string{"result"}, nil)
	historyFailures = prometheus.NewDesc("pushq_history_failed_transactions_total",
		"Transactions that the database of the history did not take, each of which is repeated.", nil, nil)
)

// A History is what keeps one (history.Store).
type History interface {
	Stats() history.Stats
	Check(context.Context) error
}

// FollowHistory adds the metrics of a history. It is called once.
func (m *Metrics) FollowHistory(kept History) {
	m.registry.MustRegister(historyCollector{kept})
}

type historyCollector struct{ History }

func (c historyCollector) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- historyConnected
	descriptions <- historyRecords
	descriptions <- historyFailures
}

func (c historyCollector) Collect(metrics chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	metrics <- gauge(historyConnected, oneIf(guarded(func() error { return c.Check(ctx) }) == nil))
	stats := c.Stats()
	count := func(description *prometheus.Desc, value int64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(description, prometheus.CounterValue, float64(value), labels...)
	}
	count(historyRecords, stats.Written, "written")
	count(historyRecords, stats.PutAside, "put_aside")
	count(historyFailures, stats.Failures)
}
