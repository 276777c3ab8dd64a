package api

import (
	"context"
	"net/http"
	"time"

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
	started := time.Now()
	request := c.Request()
	if _, err := requireMediaType(request.Header, pushMediaTypes...); err != nil {
		return err
	}
	message, err := readBody(c, s.MaxBodyBytes)
	if err != nil {
		return err
	}
	trace := tracing.FromRequest(request.Header)
	message, err = withTraceID(message, trace.Name())
	if err != nil {
		return err
	}
	notification, err := tasks.ParseNotification(message)
	if err != nil {
		return err
	}
	trace.ID = notification.TraceID
	accepting := s.Tracer.Serve(trace, "POST /notifications", started)
	notification.Trace = accepting.Trace()
	// Not the request's own context: see acceptPush.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(request.Context()), acceptTimeout)
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

// withTraceID gives a message without trace_id the one of the request, if it has one.
func withTraceID(message []byte, traceID string) ([]byte, error) {
	if traceID == "" {
		return message, nil
	}
	values, _, err := readObject(message)
	if err != nil {
		return nil, err
	}
	if _, given := values["trace_id"]; given {
		return message, nil
	}
	start := 0
	for message[start] != '{' { // blanks: it is an object
		start++
	}
	traced := append([]byte(`{"trace_id":"`+traceID+`"`), ',')
	if len(values) == 0 {
		traced = traced[:len(traced)-1]
	}
	return append(traced, message[start+1:]...), nil
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
