package metrics

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"pushq/internal/breaker"
)

var breakerState = prometheus.NewDesc("pushq_breaker_state",
	"1 for the state that the circuit breaker of a service is in, for all processes, 0 for the others.", []string{"service", "state"}, nil)

var providerRefused = prometheus.NewDesc("pushq_provider_refused",
	"1 while pushes of a channel wait because a service refuses pushq itself, for all processes, else 0.", []string{"channel", "service"}, nil)

const partBreakers = "breakers"

func newBreakerOpens(create promauto.Factory) *prometheus.CounterVec {
	return create.NewCounterVec(prometheus.CounterOpts{
		Name: "pushq_breaker_opens_total",
		Help: "Times that a call of this process has opened the circuit breaker of a service, or kept it open.",
	}, []string{"service"})
}

// BreakerOpens counts how often the breaker of the service has opened (breaker.Options.OnOpen).
func (m *Metrics) BreakerOpens(service string) prometheus.Counter {
	return m.breakerOpens.WithLabelValues(service)
}

// FollowBreakers adds the states of the breakers of these services, which a channel needs.
// read returns them in the same order. They are the same in every process of one Redis. It
// is called once.
func (m *Metrics) FollowBreakers(channel string, services []string, read func(context.Context) ([]breaker.Status, error)) {
	m.scrape.errors.WithLabelValues(partBreakers)
	for _, service := range services {
		m.BreakerOpens(service)
	}
	m.registry.MustRegister(&breakerCollector{channel: channel, services: services, read: read, scrape: &m.scrape})
}

type breakerCollector struct {
	channel  string
	services []string
	read     func(context.Context) ([]breaker.Status, error)
	scrape   *scrape
}

func (c *breakerCollector) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- breakerState
	descriptions <- providerRefused
}

func (c *breakerCollector) Collect(metrics chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	c.scrape.failed(partBreakers, guarded(func() error {
		statuses, err := c.read(ctx)
		if err != nil {
			return err
		}
		for place, service := range c.services {
			for _, state := range breaker.States() {
				metrics <- gauge(breakerState, oneIf(state == statuses[place].State), service, string(state))
			}
			metrics <- gauge(providerRefused, oneIf(statuses[place].Refused), c.channel, service)
		}
		return nil
	}))
}
