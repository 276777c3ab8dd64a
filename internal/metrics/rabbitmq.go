package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// RabbitMQ counts messages. It is safe for concurrent use.
type RabbitMQ struct {
	// Stored counts messages that have become a push, Replayed those that have one
	// already, and Refused those that cannot be taken and are in the queue of failures.
	Stored, Replayed, Refused prometheus.Counter
	// FailuresPublished counts messages about pushes that did not arrive.
	FailuresPublished prometheus.Counter
}

func newRabbitMQ(create promauto.Factory) *RabbitMQ {
	messages := create.NewCounterVec(prometheus.CounterOpts{
		Name: "pushq_rabbitmq_messages_total",
		Help: "Messages taken from RabbitMQ, by what became of them.",
	}, []string{"result"})
	return &RabbitMQ{
		Stored:   messages.WithLabelValues("stored"),
		Replayed: messages.WithLabelValues("replayed"),
		Refused:  messages.WithLabelValues("refused"),
		FailuresPublished: create.NewCounter(prometheus.CounterOpts{
			Name: "pushq_rabbitmq_failures_published_total",
			Help: "Messages put into RabbitMQ's queue of failures about pushes that did not arrive.",
		}),
	}
}

var (
	rabbitConnected = prometheus.NewDesc("pushq_rabbitmq_connected",
		"1 while this process takes messages from RabbitMQ.", nil, nil)
	rabbitInHand = prometheus.NewDesc("pushq_rabbitmq_oldest_in_hand_seconds",
		"How long the message that this process has had in hand longest has not been acknowledged.", nil, nil)
	rabbitReconnects = prometheus.NewDesc("pushq_rabbitmq_reconnects_total",
		"Connections that messages were taken over after the first one.", nil, nil)
)

// A Consumer takes messages from RabbitMQ (rabbitmq.Consumer).
type Consumer interface {
	Connected() bool
	OldestInHand() time.Duration
	Reconnects() int
}

// FollowConsumer adds the metrics of what takes messages from RabbitMQ. It is called once.
func (m *Metrics) FollowConsumer(consumer Consumer) {
	m.registry.MustRegister(consumerCollector{consumer})
}

type consumerCollector struct{ Consumer }

func (c consumerCollector) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- rabbitConnected
	descriptions <- rabbitInHand
	descriptions <- rabbitReconnects
}

func (c consumerCollector) Collect(metrics chan<- prometheus.Metric) {
	metrics <- gauge(rabbitConnected, oneIf(c.Connected()))
	metrics <- gauge(rabbitInHand, c.OldestInHand().Seconds())
	metrics <- prometheus.MustNewConstMetric(rabbitReconnects, prometheus.CounterValue, float64(c.Reconnects()))
}
