package api

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"

	"pushq/internal/tracing"
	"pushq/tasks"
)

// Notifications stores the messages of a templated channel (tasks.Intake).
type Notifications interface {
	Notify(ctx context.Context, notification tasks.Notification, message []byte, now time.Time) (id string, replayed bool, err error)
}

// acceptNotification answers 202 only after Redis has the push. The message is the one
// that also comes from RabbitMQ.
func (s *Server) acceptNotification(c echo.Context) error {
	if s.Notifications == nil {
		return newProblem(http.StatusNotFound, "not-found", "Not found", "The channel fcm is off: fcm.enabled is not set.")
	}
	started := time.Now()
	request := c.Request()
	if _, err := requireMediaType(request.Header, pushMediaTypes...); err != nil {
		return err
	}
	message, err := readBody(c, s.MaxBodyBytes)
	if err != nil {
		return err
	}
	key, _, err := idempotencyKey(request.Header)
	if err != nil {
		return err
	}
	trace := tracing.FromRequest(request.Header)
	message, err = supplement(message, member{"trace_id", trace.Name()}, member{"idempotency_key", key})
	if err != nil {
		return err
	}
	notification, err := tasks.ParseNotification(message)
	if err != nil {
		return err
	}
	if key != "" && key != notification.IdempotencyKey {
		return invalid("", fieldError{idempotencyKeyHeader, "differs from the message's idempotency_key: leave one of them out, or make them the same"})
	}
	trace.ID = notification.TraceID
	accepting := s.Tracer.Serve(trace, "POST /notifications", started)
	notification.Trace = accepting.Trace()
	// Not the request's own context: see acceptPush.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(request.Context()), s.RedisTimeout)
	defer cancel()
	id, replayed, err := s.Notifications.Notify(ctx, notification, message, s.Clock.Now())
	s.Metrics.Intake.Took(time.Since(started))
	endAccepting(accepting, id, err)
	switch {
	case err != nil:
		s.Metrics.Intake.NotReceived(err)
		return err
	case replayed:
		s.Metrics.Intake.Replayed.Inc()
		c.Response().Header().Set(replayedHeader, "true")
	default:
		s.Metrics.Intake.Received(false)
	}
	if id != "" {
		c.Response().Header().Set(echo.HeaderLocation, "/push/"+id)
	}
	return c.NoContent(http.StatusAccepted)
}

// A member of a JSON object.
type member struct{ name, value string }

// supplement adds those members to a message that it does not have itself, and that have
// a value.
func supplement(message []byte, members ...member) ([]byte, error) {
	if !slices.ContainsFunc(members, func(m member) bool { return m.value != "" }) {
		return message, nil
	}
	values, _, err := readObject(message)
	if err != nil {
		return nil, err
	}
	start := bytes.IndexByte(message, '{') + 1 // blanks before it: it is an object
	supplemented := slices.Clone(message[:start])
	for _, m := range members {
		if _, given := values[m.name]; given || m.value == "" {
			continue
		}
		supplemented = append(supplemented, `"`+m.name+`":`...)
		if supplemented, err = jsontext.AppendQuote(supplemented, m.value); err != nil {
			return nil, fmt.Errorf("add %s to a message: %w", m.name, err)
		}
		supplemented = append(supplemented, ',')
	}
	if len(values) == 0 {
		supplemented = bytes.TrimSuffix(supplemented, []byte(","))
	}
	return append(supplemented, message[start:]...), nil
}

// invalidNotification names everything that is wrong with a message.
func invalidNotification(wrong *tasks.InvalidNotificationError) *problem {
	var mistakes []fieldError
	detail := ""
	for _, field := range wrong.Fields {
		if field.Field == "" {
			detail = "The message " + field.Problem + "."
			continue
		}
		mistakes = append(mistakes, fieldError{field.Field, field.Problem})
	}
	sortByField(mistakes)
	return invalid(detail, mistakes...)
}
