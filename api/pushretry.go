package api

import (
	"net/http"

	"github.com/labstack/echo/v4"
)

// retryPush answers 202 once the push is in the queue again.
func (s *Server) retryPush(c echo.Context) error {
	if err := s.operate(c, "retry", s.Operator.Retry); err != nil {
		return err
	}
	c.Response().Header().Set(echo.HeaderLocation, "/push/"+c.Param("id"))
	return c.NoContent(http.StatusAccepted)
}
