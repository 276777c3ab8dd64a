package api

import (
	"context"
	"errors"
	"log/slog"

	"github.com/labstack/echo/v4"

	"pushq/tasks"
)

// Operator does what people do to pushes, one or many (a tasks.Operator for each
// channel).
type Operator interface {
	Retry(ctx context.Context, id string) error
	Cancel(ctx context.Context, id string) error
	RetryAll(ctx context.Context, channel tasks.Channel, filter tasks.Filter, limit int, cursor string) (tasks.Bulk, error)
	CancelAll(ctx context.Context, channel tasks.Channel, filter tasks.Filter, limit int, cursor string) (tasks.Bulk, error)
}

// operate does something to the push of the request, and logs who wanted it and
// what came of it.
func (s *Server) operate(c echo.Context, action string, do func(ctx context.Context, id string) error) error {
	// Not the request's own context: see acceptPush.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Request().Context()), s.RedisTimeout)
	defer cancel()
	id := pushID(c)
	err := do(ctx, id)
	if errors.Is(err, tasks.ErrNotFound) {
		return err // the id may be any text
	}
	outcome := "done"
	if err != nil {
		outcome = err.Error()
	}
	s.Log.Info("operator", slog.String("action", action), slog.String("id", id),
		slog.String("caller", caller(c)), slog.String("outcome", outcome))
	return notDone(err)
}

// notDone words what Redis refuses for somebody who does something to pushes: the usual
// words are about new ones.
func notDone(err error) error {
	switch {
	case errors.Is(err, tasks.ErrStoreFull):
		return unavailable("store-full", "Not done",
			"The queue has no room to do this until older records expire or it is given more memory. What was done before stays done; try again later.", 10)
	case errors.Is(err, tasks.ErrNotStored):
		return unavailable("unavailable", "Not done",
			"The queue takes no changes now. What was done before stays done; try again later.", 2)
	default:
		return err
	}
}
