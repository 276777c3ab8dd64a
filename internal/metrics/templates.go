package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"pushq/internal/template"
)

// Templates counts how templates are had. It is safe for concurrent use.
type Templates struct {
	lookups, requests *prometheus.CounterVec
}

func newTemplates(create promauto.Factory) *Templates {
	t := &Templates{
		lookups: create.NewCounterVec(prometheus.CounterOpts{
			Name: "pushq_template_lookups_total",
			Help: "Templates that pushes have asked for, by where the answer came from: the cache, the template service, or the cache because the service did not answer.",
		}, []string{"result"}),
		requests: create.NewCounterVec(prometheus.CounterOpts{
			Name: "pushq_template_requests_total",
			Help: "Requests to the template service, repeated ones included, by what came of them.",
		}, []string{"outcome"}),
	}
	for _, lookup := range template.Lookups() {
		t.lookups.WithLabelValues(string(lookup))
	}
	for _, outcome := range template.Outcomes() {
		t.requests.WithLabelValues(string(outcome))
	}
	return t
}

// LookedUp counts a template that was asked for.
func (t *Templates) LookedUp(lookup template.Lookup) { t.lookups.WithLabelValues(string(lookup)).Inc() }

// Requested counts a request to the service.
func (t *Templates) Requested(outcome template.Outcome) {
	t.requests.WithLabelValues(string(outcome)).Inc()
}
