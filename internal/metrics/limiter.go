package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"pushq/internal/limiter"
)

var (
	configuredPace = prometheus.NewDesc("pushq_ratelimit_configured_slots_per_second",
		"Starts of requests a second that this process is configured with, by delayMillis.", []string{"channel"}, nil)
	paceInEffect = prometheus.NewDesc("pushq_ratelimit_slots_per_second",
		"Starts of requests a second that all processes share now: the slowest configuration or an operator's override, less what 429s have taken off.", []string{"channel"}, nil)
	brakeSeconds = prometheus.NewDesc("pushq_ratelimit_brake_seconds",
		"How long nobody may start yet, because the provider asked for a pause; 0 without one.", []string{"channel"}, nil)
	waiting = prometheus.NewDesc("pushq_ratelimit_waiting",
		"Pushes in this process that wait for a slot, by class.", []string{"channel", "class"}, nil)
	slotsGranted = prometheus.NewDesc("pushq_ratelimit_slots_granted_total",
		"Slots given to waiting pushes.", []string{"channel"}, nil)
	slotsReturned = prometheus.NewDesc("pushq_ratelimit_slots_returned_total",
		"Slots that a push gave back, because it must not be sent now.", []string{"channel"}, nil)
	slotsDropped = prometheus.NewDesc("pushq_ratelimit_slots_dropped_total",
		"Slots that came or were used too late, and were not used.", []string{"channel"}, nil)
	throttles = prometheus.NewDesc("pushq_ratelimit_throttles_total",
		"Answers with status 429 that were about everybody: each slows the shared pace.", []string{"channel"}, nil)
)

const partPace = "pace"

// A Limiter is one to follow.
type Limiter struct {
	Channel    string
	Configured time.Duration // the pace
	// Current returns nil while there is none: there are no metrics of it then.
	Current func() *limiter.Limiter
}

// FollowLimiters adds the metrics of the limiters of all channels. It is called once.
func (m *Metrics) FollowLimiters(limiters ...Limiter) {
	m.scrape.errors.WithLabelValues(partPace)
	m.registry.MustRegister(&limiterCollector{limiters: limiters, scrape: &m.scrape})
}

type limiterCollector struct {
	limiters []Limiter
	scrape   *scrape
}

func (c *limiterCollector) Describe(descriptions chan<- *prometheus.Desc) {
	for _, description := range []*prometheus.Desc{
		configuredPace, paceInEffect, brakeSeconds, waiting, slotsGranted, slotsReturned, slotsDropped, throttles,
	} {
		descriptions <- description
	}
}

func (c *limiterCollector) Collect(metrics chan<- prometheus.Metric) {
	for _, one := range c.limiters {
		c.collect(one, metrics)
	}
}

func (c *limiterCollector) collect(one Limiter, metrics chan<- prometheus.Metric) {
	metrics <- gauge(configuredPace, perSecond(one.Configured), one.Channel)
	l := one.Current()
	if l == nil {
		return
	}
	stats := l.Stats()
	for class, count := range stats.Waiting {
		metrics <- gauge(waiting, float64(count), one.Channel, limiter.Class(class).String())
	}
	for description, count := range map[*prometheus.Desc]int64{
		slotsGranted: stats.Used + stats.Returned, slotsReturned: stats.Returned, slotsDropped: stats.Dropped, throttles: stats.Throttles,
	} {
		metrics <- prometheus.MustNewConstMetric(description, prometheus.CounterValue, float64(count), one.Channel)
	}
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	c.scrape.failed(partPace, guarded(func() error {
		pace, err := l.Pace(ctx)
		if err != nil {
			return err
		}
		metrics <- gauge(paceInEffect, perSecond(pace.InForce(one.Configured)), one.Channel)
		metrics <- gauge(brakeSeconds, pace.Brake.Seconds(), one.Channel)
		return nil
	}))
}

func perSecond(delay time.Duration) float64 { return float64(time.Second) / float64(delay) }
