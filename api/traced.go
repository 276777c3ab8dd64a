package api

import (
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/attribute"

	"pushq/internal/tracing"
)

// endAccepting ends the span of a request that was to store a push, or many (then id is
// ""). Requests that say nothing that could be stored have none.
func endAccepting(accepting tracing.Span, id string, err error) {
	if !accepting.Recording() {
		return
	}
	if id != "" {
		accepting.Set(attribute.String("pushq.push_id", id))
	}
	if err != nil {
		refusal := problemFor(err)
		accepting.Set(attribute.Int("http.response.status_code", refusal.Status))
		if refusal.Status >= http.StatusInternalServerError {
			accepting.Fail(strings.TrimPrefix(refusal.Type, problemTypePrefix))
		}
	}
	accepting.End()
}
