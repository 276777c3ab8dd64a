package api

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"pushq/internal/history"
	"pushq/tasks"
)

// problem is the body of every answer that is an error (RFC 9457). As an error
// it is what a handler returns when it knows the answer itself.
type problem struct {
	Type   string       `json:"type"`
	Title  string       `json:"title"`
	Status int          `json:"status"`
	Detail string       `json:"detail,omitempty"`
	State  tasks.State  `json:"state,omitempty"` // of the push, if that is the reason
	Errors []fieldError `json:"errors,omitempty"`

	retryAfter int // seconds, 0 for none
	// tooLate means that the same request may have been right earlier.
	tooLate bool
}

// fieldError says what is wrong with one field, header or parameter.
type fieldError struct {
	Field  string `json:"field"`
	Reason string `json:"reason"`
}

func (p *problem) Error() string { return fmt.Sprintf("%d %s: %s", p.Status, p.Title, p.Detail) }

const (
	problemMediaType  = "application/problem+json"
	problemTypePrefix = "urn:pushq:problem:"
)

func newProblem(status int, name, title, detail string) *problem {
	return &problem{Type: problemTypePrefix + name, Title: title, Status: status, Detail: detail}
}

// unavailable is the answer to a request that may be repeated after so many
// seconds.
func unavailable(name, title, detail string, retryAfter int) *problem {
	p := newProblem(http.StatusServiceUnavailable, name, title, detail)
	p.retryAfter = retryAfter
	return p
}

func sortByField(mistakes []fieldError) {
	slices.SortStableFunc(mistakes, func(a, b fieldError) int { return strings.Compare(a.Field, b.Field) })
}

// maxMistakes bounds an answer: a small body can hold thousands of mistakes.
const maxMistakes = 20

// invalid is the answer to a request that can never be accepted.
func invalid(detail string, errors ...fieldError) *problem {
	p := newProblem(http.StatusBadRequest, "invalid-request", "The request is not valid", detail)
	if len(errors) > maxMistakes {
		p.Detail = fmt.Sprintf("There are %d mistakes, of which %d are named.", len(errors), maxMistakes)
		errors = slices.Clone(errors[:maxMistakes]) // a batch keeps thousands of such answers
	}
	p.Errors = errors
	return p
}

// problemFor turns any error into the answer. What is not known is a fault of
// ours, of which the caller learns nothing but that.
func problemFor(err error) *problem {
	var known *problem
	var routing *echo.HTTPError
	var wrongState *tasks.StateError
	var closed *tasks.ClosedError
	var reused *tasks.ReusedKeyError
	var superseded *tasks.SupersededError
	var wrongMessage *tasks.InvalidNotificationError
	var unusable *tasks.UnusableKeyError
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &wrongMessage):
		return invalidNotification(wrongMessage)
	case errors.Is(err, tasks.ErrNotFound):
		return newProblem(http.StatusNotFound, "not-found", "Not found", "There is no such push.")
	case errors.Is(err, tasks.ErrCursor):
		return invalid("", fieldError{"cursor", "is not one that a listing of this channel and status has returned"})
	case errors.As(err, &reused):
		return newProblem(http.StatusConflict, "idempotency-key-reused", "Conflict",
			fmt.Sprintf("This %s was used before with other content: it stands for push %s.", cmp.Or(reused.Field, "idempotency key"), reused.Push))
	case errors.As(err, &unusable):
		return newProblem(http.StatusInternalServerError, "internal", "Internal error",
			fmt.Sprintf("Redis has something under the key %s that pushq cannot have written. Nothing was done, and this will not work before somebody deletes that key.", unusable.Key))
	case errors.As(err, &wrongState):
		p := newProblem(http.StatusConflict, "wrong-state", "Conflict",
			fmt.Sprintf("A push that is %s cannot be %s.", wrongState.State, wrongState.Action))
		if wrongState.UnderWay {
			p.Detail = fmt.Sprintf("The push is %s, but an earlier attempt may be under way yet: its worker has not said what came of it. "+
				"Try again later; what a dead worker held is free after the longest time of a request and ten seconds.", wrongState.State)
		}
		p.State = wrongState.State
		return p
	case errors.As(err, &closed):
		p := newProblem(http.StatusConflict, "window-closed", "Conflict", "The window of the push never opens again.")
		if !closed.NextOpening.IsZero() {
			p.Detail = fmt.Sprintf("The push may not be sent before %s.", formatTime(closed.NextOpening))
		}
		p.State = closed.State
		return p
	case errors.As(err, &superseded):
		p := newProblem(http.StatusConflict, "superseded", "Conflict",
			"A message with the idempotency key of this push was sent already.")
		if superseded.By != "" {
			p.Detail = fmt.Sprintf("The idempotency key of this push stands for push %s by now.", superseded.By)
		}
		p.State = superseded.State
		return p
	case errors.Is(err, tasks.ErrIncomplete):
		return unavailable("outcome-unknown", "Outcome unknown",
			"The queue did not answer in time; this may have been done or not. Repeating the request is safe.", 2)
	case errors.Is(err, tasks.ErrStoreFull):
		return unavailable("store-full", "Not accepted",
			"The queue has no room for new pushes until older records expire or it is given more memory. It was not accepted; try again later.", 10)
	case errors.Is(err, tasks.ErrNotStored):
		return unavailable("unavailable", "Not accepted",
			"The queue cannot take the push now. It was not accepted; try again later.", 2)
	case errors.Is(err, tasks.ErrOutcomeUnknown):
		return unavailable("outcome-unknown", "Outcome unknown",
			"The queue did not answer in time and may have taken the push. Repeating the request is safe with the same Idempotency-Key.", 2)
	case errors.Is(err, tasks.ErrUnreadable):
		return unavailable("unavailable", "Unavailable",
			"The queue cannot be read now; try again later.", 2)
	case errors.Is(err, history.ErrUnavailable):
		return unavailable("unavailable", "Unavailable",
			"The history cannot be read now; try again later.", 2)
	case errors.As(err, &routing):
		return routingProblem(routing.Code)
	default:
		return newProblem(http.StatusInternalServerError, "internal", "Internal error", "Something went wrong here; the log says what.")
	}
}

func routingProblem(status int) *problem {
	switch status {
	case http.StatusNotFound:
		return newProblem(status, "not-found", "Not found", "There is nothing at this address.")
	case http.StatusMethodNotAllowed:
		return newProblem(status, "method-not-allowed", "Method not allowed", "This address does not know the method.")
	default:
		return newProblem(status, "refused", http.StatusText(status), "")
	}
}

// writeProblem is echo's HTTPErrorHandler: the one place where errors become
// HTTP.
func (s *Server) writeProblem(err error, c echo.Context) {
	if c.Response().Committed {
		s.Log.Debug("answer not written to its end", slog.String("route", c.Path()), slog.Any("error", err))
		return
	}
	p := problemFor(err)
	if path := c.Request().URL.Path; (p.Status == http.StatusNotFound || p.Status == http.StatusMethodNotAllowed) &&
		len(path) > 1 && strings.HasSuffix(path, "/") {
		p.Detail = "The address ends in a slash, which none does here: leave it out."
	}
	if p.Status >= http.StatusInternalServerError {
		s.Log.Error("request failed", slog.String("method", c.Request().Method), slog.String("route", c.Path()),
			slog.Int("status", p.Status), slog.Any("error", err))
	}
	header := c.Response().Header()
	if p.retryAfter > 0 {
		header.Set("Retry-After", strconv.Itoa(p.retryAfter))
	}
	header.Set(echo.HeaderContentType, problemMediaType)
	if err := writeJSON(c, p.Status, p); err != nil {
		s.Log.Debug("answer not written to its end", slog.String("route", c.Path()), slog.Any("error", err))
	}
}
