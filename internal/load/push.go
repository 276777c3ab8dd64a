package load

import (
	"net/http"
	"time"

	"pushq/tasks"
)

// push is what the load test reads of GET /push/{id}.
type push struct {
	Status   tasks.State `json:"status"`
	Attempts []attempt   `json:"attempts"`
}

type attempt struct {
	Status         tasks.AttemptStatus `json:"status"`
	StartedAt      *time.Time          `json:"startedAt"`
	Millis         *int64              `json:"millis"`
	ErrorType      tasks.ErrorType     `json:"errorType"`
	ErrorCode      int                 `json:"errorCode"`
	MaybeDelivered bool                `json:"maybeDelivered"`
}

// request is an attempt that reached the provider, or may have.
type request struct {
	startedAt   time.Time
	took        time.Duration
	rateLimited bool
}

// requests leaves out attempts that are still under way, and those that ended
// before a request was made.
func (p push) requests() []request {
	var list []request
	for _, a := range p.Attempts {
		reached := a.Status == tasks.AttemptOK || a.ErrorType == tasks.ErrorSwrve || a.MaybeDelivered
		if !reached || a.StartedAt == nil || a.Millis == nil {
			continue
		}
		list = append(list, request{
			startedAt:   *a.StartedAt,
			took:        time.Duration(*a.Millis) * time.Millisecond,
			rateLimited: a.ErrorCode == http.StatusTooManyRequests,
		})
	}
	return list
}
