// Package metrics is what a process tells Prometheus about itself and the
// queues. Every metric has its name here (but for single gauges, which
// cmd/pushq/metrics.go adds), and a line in docs/metrics.md.
//
// What happens in the process is counted where it happens, through Intake, Channel
// and the like. What others know is asked for during a scrape: the queues, Redis, the
// limiter, circuit breakers, followers, RabbitMQ's consumer and the history.
//
// Labels have few values, and none that a caller sends. Those that are known
// exist from the start, with 0: an alert needs no first event to see a rise.
package metrics

import (
	"log/slog"
	"net/http"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/time/rate"
)

// Metrics of one process. It is safe for concurrent use.
type Metrics struct {
	// Intake counts what is received.
	Intake *Intake
	// RabbitMQ counts what comes from there and goes there.
	RabbitMQ *RabbitMQ
	// Templates counts the uses of templates.
	Templates *Templates
	// QueueErrors counts the errors of Redis that the queue's workers meet.
	QueueErrors prometheus.Counter

	registry     *prometheus.Registry
	delivery     *delivery
	breakerOpens *prometheus.CounterVec
	tokenFetches *prometheus.CounterVec
	scrape       scrape
}

// New returns metrics in a registry of their own, with those of the Go runtime
// and of the process. version is that of the build.
func New(version string, log *slog.Logger) *Metrics {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	create := promauto.With(registry)
	create.NewGaugeVec(prometheus.GaugeOpts{
		Name: "pushq_build_info",
		Help: "1, with the version of pushq and of Go that it was built with.",
	}, []string{"version", "goversion"}).WithLabelValues(version, runtime.Version()).Set(1)
	storeErrors := create.NewCounterVec(prometheus.CounterOpts{
		Name: "pushq_store_errors_total",
		Help: "Calls to Redis that failed, while a push was received, its attempts were recorded (each repetition counts), or the queues were worked on.",
	}, []string{"stage"})
	return &Metrics{
		Intake:       newIntake(create, storeErrors.WithLabelValues("receiving")),
		RabbitMQ:     newRabbitMQ(create),
		Templates:    newTemplates(create),
		QueueErrors:  storeErrors.WithLabelValues("queue"),
		registry:     registry,
		delivery:     newDelivery(create, storeErrors.WithLabelValues("attempt")),
		breakerOpens: newBreakerOpens(create),
		tokenFetches: newTokenFetches(create),
		scrape:       newScrape(create, log),
	}
}

// Gauge adds a value of the process that is asked for during a scrape; value
// must return at once.
func (m *Metrics) Gauge(name, help string, value func() float64) {
	promauto.With(m.registry).NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
}

// Handler answers a scrape. What could not be read is left out and counted in
// pushq_scrape_errors_total; the answer is 200 all the same.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
}

// scrape is what the collectors share that ask others during a scrape.
type scrape struct {
	errors   *prometheus.CounterVec
	warnings *rate.Sometimes
	log      *slog.Logger
}

func newScrape(create promauto.Factory, log *slog.Logger) scrape {
	return scrape{
		errors: create.NewCounterVec(prometheus.CounterOpts{
			Name: "pushq_scrape_errors_total",
			Help: "Times that a part of the metrics could not be read and was left out of a scrape.",
		}, []string{"part"}),
		warnings: &rate.Sometimes{First: 1, Interval: warningInterval},
		log:      log,
	}
}

// failed counts an error, unless it is nil.
func (s *scrape) failed(part string, err error) {
	if err == nil {
		return
	}
	s.errors.WithLabelValues(part).Inc()
	s.warnings.Do(func() {
		s.log.Warn("a part of the metrics could not be read; further ones are not logged for a minute",
			slog.String("part", part), slog.Any("error", err))
	})
}
