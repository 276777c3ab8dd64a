package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// What can come of a request for an access token.
const (
	TokenFetched    = "ok"
	TokenRefused    = "refused" // the service account is not taken
	TokenNotFetched = "failed"  // the endpoint does not work
)

func newTokenFetches(create promauto.Factory) *prometheus.CounterVec {
	fetches := create.NewCounterVec(prometheus.CounterOpts{
		Name: "pushq_access_token_fetches_total",
		Help: "Requests for an OAuth access token to Firebase, by what came of them.",
	}, []string{"outcome"})
	for _, outcome := range []string{TokenFetched, TokenRefused, TokenNotFetched} {
		fetches.WithLabelValues(outcome)
	}
	return fetches
}

// TokenFetch counts a request for an access token, by one of those outcomes.
func (m *Metrics) TokenFetch(outcome string) { m.tokenFetches.WithLabelValues(outcome).Inc() }
