package metrics

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"pushq/tasks"
)

// Intake counts what is received, by the API and from RabbitMQ. It is safe for concurrent use.
type Intake struct {
	// Replayed counts repetitions of an accepted push by its idempotency key.
	Replayed prometheus.Counter
	// Unmapped counts accepted pushes whose prototype has no push key yet.
	Unmapped prometheus.Counter

	storeErrors          prometheus.Counter
	seconds              prometheus.Histogram
	immediate, scheduled prometheus.Counter
}

func newIntake(create promauto.Factory, storeErrors prometheus.Counter) *Intake {
	received := create.NewCounterVec(prometheus.CounterOpts{
		Name: "pushq_received_total",
		Help: "Pushes accepted, repetitions by idempotency key excluded; scheduled are those with a cronExpression.",
	}, []string{"kind"})
	return &Intake{
		storeErrors: storeErrors,
		Replayed: create.NewCounter(prometheus.CounterOpts{
			Name: "pushq_replayed_total",
			Help: "Repetitions of an accepted push, found by its idempotency key and not stored again.",
		}),
		Unmapped: create.NewCounter(prometheus.CounterOpts{
			Name: "pushq_unmapped_total",
			Help: "Pushes accepted although their messagePrototypeKey has no push key here yet.",
		}),
		seconds: create.NewHistogram(prometheus.HistogramOpts{
			Name: "pushq_receiving_seconds",
			Help: "Time from the header of a POST /push or /notifications to its answer, for pushes that were well-formed: accepted, or refused because of Redis.",
			// Redis answers within a millisecond, and is given up after 2.5 s.
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2, 3},
		}),
		immediate: received.WithLabelValues("immediate"),
		scheduled: received.WithLabelValues("scheduled"),
	}
}

// Received counts an accepted push that is not a repetition.
func (i *Intake) Received(scheduled bool) {
	if scheduled {
		i.scheduled.Inc()
	} else {
		i.immediate.Inc()
	}
}

// NotReceived counts a push that was not accepted, if that is Redis' fault: it did not
// take the push, or may have.
func (i *Intake) NotReceived(err error) {
	for _, fault := range []error{tasks.ErrNotStored, tasks.ErrOutcomeUnknown, tasks.ErrUnreadable} {
		if errors.Is(err, fault) {
			i.storeErrors.Inc()
			return
		}
	}
}

// Took notes how long a push was received for, whatever came of it.
func (i *Intake) Took(duration time.Duration) { i.seconds.Observe(duration.Seconds()) }
