package baseline

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/labstack/echo/v4"
)

// Serve serves POST /push, if there is something to accept pushes with, and
// GET /health/ready, on a free port of the loopback interface, which it logs as
// pushq does. It returns when ctx ends.
func Serve(ctx context.Context, accept func(ctx context.Context, push Push, due time.Time) (id string, err error)) error {
	server := echo.New()
	server.HideBanner, server.HidePort = true, true
	server.GET("/health/ready", func(c echo.Context) error { return c.NoContent(http.StatusOK) })
	if accept != nil {
		server.POST("/push", func(c echo.Context) error {
			var push Push
			if err := c.Bind(&push); err != nil {
				return err
			}
			due, err := push.Due(time.Now())
			if err != nil {
				return echo.NewHTTPError(http.StatusBadRequest, err.Error())
			}
			id, err := accept(c.Request().Context(), push, due)
			if err != nil {
				return err
			}
			c.Response().Header().Set(echo.HeaderLocation, "/push/"+id)
			return c.NoContent(http.StatusAccepted)
		})
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	log.Info("http listening", slog.String("address", listener.Addr().String()))
	context.AfterFunc(ctx, func() { _ = server.Close() })
	server.Listener = listener
	if err := server.Start(""); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
