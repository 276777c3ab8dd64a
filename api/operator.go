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
	id := c.Param("id")
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
	return err
}
