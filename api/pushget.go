package api

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"github.com/labstack/echo/v4"

	"pushq/tasks"
)

// pushView is a push as the API shows it. The names are the same on every
// channel; what is absent is null.
type pushView struct {
	ID                  string        `json:"id"`
	Status              tasks.State   `json:"status"`
	Platform            string        `json:"platform"`
	MessagePrototypeKey string        `json:"messagePrototypeKey"`
	PushKey             string        `json:"pushKey"`
	Message             string        `json:"message"`
	CronExpression      *string       `json:"cronExpression"`
	TimeZone            *string       `json:"timeZone"`
	TraceID             *string       `json:"traceId"`
	CreatedAt           *string       `json:"createdAt"`
	NextAttemptAt       *string       `json:"nextAttemptAt"`
	Attempts            []attemptView `json:"attempts"`
	// Notification is the message of a templated channel, whose pushes have the four
	// texts above empty.
	Notification json.RawMessage `json:"notification,omitempty"`
}

type attemptView struct {
	ID             int                 `json:"id"`
	Status         tasks.AttemptStatus `json:"status"`
	StartedAt      *string             `json:"startedAt"`
	Millis         *int64              `json:"millis"`
	ErrorType      *tasks.ErrorType    `json:"errorType"`
	ErrorCode      *int                `json:"errorCode"`
	ErrorMessage   *string             `json:"errorMessage"`
	StackTrace     *string             `json:"stackTrace"`
	MaybeDelivered bool                `json:"maybeDelivered"`
	Replacement    string              `json:"replacement,omitempty"`
}

func (s *Server) getPush(c echo.Context) error {
	ctx, cancel := context.WithTimeout(c.Request().Context(), s.RedisTimeout)
	defer cancel()
	report, err := s.Reader.Get(ctx, pushID(c))
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, view(report))
}

// pushID is the id in the path, of which some clients encode characters that need it not.
func pushID(c echo.Context) string {
	id := c.Param("id")
	if decoded, err := url.PathUnescape(id); err == nil {
		return decoded
	}
	return id
}

func view(report tasks.Report) pushView {
	push := report.Push
	shown := pushView{
		ID:                  push.ID,
		Status:              report.State,
		Platform:            push.Platform,
		MessagePrototypeKey: push.MessagePrototypeKey,
		PushKey:             push.PushKey,
		Message:             push.Message,
		CronExpression:      orNull(push.CronExpression),
		TimeZone:            orNull(push.TimeZone),
		TraceID:             orNull(push.Trace.Name()),
		CreatedAt:           timeOrNull(push.CreatedAt.Time()),
		NextAttemptAt:       timeOrNull(report.NextAttemptAt),
		Attempts:            make([]attemptView, len(report.Attempts)),
		Notification:        push.Notification,
	}
	for place, attempt := range report.Attempts {
		shown.Attempts[place] = attemptView{
			ID:             place + 1,
			Status:         attempt.Status,
			StartedAt:      timeOrNull(attempt.StartedAt.Time()),
			Millis:         attempt.Millis,
			ErrorType:      orNull(attempt.ErrorType),
			ErrorCode:      orNull(attempt.ErrorCode),
			ErrorMessage:   orNull(attempt.ErrorMessage),
			StackTrace:     orNull(attempt.StackTrace),
			MaybeDelivered: attempt.MaybeDelivered,
			Replacement:    attempt.Replacement,
		}
	}
	return shown
}

func orNull[T comparable](value T) *T {
	var none T
	if value == none {
		return nil
	}
	return &value
}

// timeOrNull shows neither Go's zero time nor 1970, by which it is stored.
func timeOrNull(t time.Time) *string {
	if t.Unix() <= 0 {
		return nil
	}
	text := formatTime(t)
	return &text
}

// formatTime is RFC 3339 in UTC with milliseconds.
func formatTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }
