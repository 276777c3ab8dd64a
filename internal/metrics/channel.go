package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"pushq/tasks"
)

// What an attempt can come to, as metrics and log name it.
const (
	OutcomeOK          = "ok"
	OutcomeRetry       = "retry"
	OutcomeFail        = "fail"
	OutcomeGiveUp      = "give_up"
	OutcomeInterrupted = "interrupted" // its worker died; found by a later one
)

// delivery holds the metrics of all channels.
type delivery struct {
	storeErrors prometheus.Counter
	finished    *prometheus.CounterVec
	attempts    *prometheus.CounterVec
	errors      *prometheus.CounterVec
	unknown     *prometheus.CounterVec
	responses   *prometheus.CounterVec
	seconds     *prometheus.HistogramVec
	inFlight    *prometheus.GaugeVec
	deadTokens  *prometheus.CounterVec
	newTokens   *prometheus.CounterVec
	alarms      *prometheus.CounterVec
}

func newDelivery(create promauto.Factory, storeErrors prometheus.Counter) *delivery {
	return &delivery{
		storeErrors: storeErrors,
		finished: create.NewCounterVec(prometheus.CounterOpts{
			Name: "pushq_pushes_finished_total",
			Help: "Pushes that reached an end; one that is retried after its end counts again.",
		}, []string{"channel", "state"}),
		attempts: create.NewCounterVec(prometheus.CounterOpts{
			Name: "pushq_attempts_total",
			Help: "Attempts to deliver a push, also those for which no request could be made.",
		}, []string{"channel", "outcome"}),
		errors: create.NewCounterVec(prometheus.CounterOpts{
			Name: "pushq_attempt_errors_total",
			Help: "Attempts that did not deliver, by the type of their error; final are those that ended their push.",
		}, []string{"channel", "type", "final"}),
		unknown: create.NewCounterVec(prometheus.CounterOpts{
			Name: "pushq_attempts_unknown_total",
			Help: "Attempts without an answer that may have delivered all the same.",
		}, []string{"channel"}),
		responses: create.NewCounterVec(prometheus.CounterOpts{
			Name: "pushq_provider_responses_total",
			Help: "Answers of the provider by status; 2xx for all successes, none for requests without an answer.",
		}, []string{"channel", "code"}),
		seconds: create.NewHistogramVec(prometheus.HistogramOpts{
			Name: "pushq_sending_seconds",
			Help: "Time that the provider took for a request, from its start to the end of the answer.",
			// The original service saw a median of 1 s and a maximum of 7.7 s;
			// swrve.timeoutMillis is 15 s.
			Buckets: []float64{.025, .05, .1, .25, .5, .75, 1, 1.5, 2, 3, 5, 7.5, 10, 15, 30},
		}, []string{"channel", "outcome"}),
		inFlight: create.NewGaugeVec(prometheus.GaugeOpts{
			Name: "pushq_sending_in_flight",
			Help: "Requests to the provider under way in this process.",
		}, []string{"channel"}),
		deadTokens: create.NewCounterVec(prometheus.CounterOpts{
			Name: "pushq_dropped_tokens_total",
			Help: "Attempts after which the provider says that nothing will ever reach the recipient's token.",
		}, []string{"channel"}),
		newTokens: create.NewCounterVec(prometheus.CounterOpts{
			Name: "pushq_replaced_tokens_total",
			Help: "Deliveries for which the provider has named another token of the recipient's.",
		}, []string{"channel"}),
		alarms: create.NewCounterVec(prometheus.CounterOpts{
			Name: "pushq_alarms_total",
			Help: "Attempts that failed because the configuration is wrong: somebody has to mend it.",
		}, []string{"channel"}),
	}
}

// Channel counts what becomes of one channel's pushes. It is safe for
// concurrent use.
type Channel struct {
	// StoreErrors counts calls that did not record an attempt or its outcome.
	StoreErrors prometheus.Counter
	// InFlight is how many requests are under way.
	InFlight prometheus.Gauge
	// DroppedTokens counts attempts to reach a token that is dead.
	DroppedTokens prometheus.Counter
	// ReplacedTokens counts deliveries to a token that has got a successor.
	ReplacedTokens prometheus.Counter
	// Alarms counts attempts that failed for what somebody has to mend.
	Alarms prometheus.Counter

	name string
	*delivery
}

// Channel returns the metrics of the named channel.
func (m *Metrics) Channel(name string) *Channel {
	d := m.delivery
	c := &Channel{
		StoreErrors: d.storeErrors, InFlight: d.inFlight.WithLabelValues(name),
		DroppedTokens: d.deadTokens.WithLabelValues(name), ReplacedTokens: d.newTokens.WithLabelValues(name), Alarms: d.alarms.WithLabelValues(name),
		name: name, delivery: d,
	}
	for _, state := range tasks.States() {
		if state.Ended() {
			d.finished.WithLabelValues(name, string(state))
		}
	}
	for _, outcome := range []string{OutcomeOK, OutcomeRetry, OutcomeFail, OutcomeGiveUp} {
		d.attempts.WithLabelValues(name, outcome)
		d.seconds.WithLabelValues(name, outcome)
	}
	d.attempts.WithLabelValues(name, OutcomeInterrupted)
	for _, kind := range tasks.ErrorTypes() {
		d.errors.WithLabelValues(name, string(kind), "true")
		d.errors.WithLabelValues(name, string(kind), "false")
	}
	d.unknown.WithLabelValues(name)
	for _, code := range []string{codeSuccess, codeNone, "429", "500", "502", "503", "504"} {
		d.responses.WithLabelValues(name, code)
	}
	return c
}

// Finished counts a push that reached its end.
func (c *Channel) Finished(end tasks.State) { c.finished.WithLabelValues(c.name, string(end)).Inc() }

// Attempted counts an attempt by its outcome, one of those above.
func (c *Channel) Attempted(outcome string) { c.attempts.WithLabelValues(c.name, outcome).Inc() }

// AttemptError counts an attempt that did not deliver. final says that it ended
// its push, maybeDelivered that it had no answer after it may have arrived.
func (c *Channel) AttemptError(kind tasks.ErrorType, final, maybeDelivered bool) {
	label := "false"
	if final {
		label = "true"
	}
	c.errors.WithLabelValues(c.name, string(kind), label).Inc()
	if maybeDelivered {
		c.unknown.WithLabelValues(c.name).Inc()
	}
}

// Answered notes a request by the outcome of its attempt and the status of the
// provider's answer: 0 if there was none.
func (c *Channel) Answered(outcome string, status int, took time.Duration) {
	c.seconds.WithLabelValues(c.name, outcome).Observe(took.Seconds())
	code := codeOf(status)
	if outcome == OutcomeOK {
		code = codeSuccess
	}
	c.responses.WithLabelValues(c.name, code).Inc()
}
