package api

import (
	"net/http"

	"github.com/labstack/echo/v4"
)

// cancelPush answers 204 once the push will not be sent.
func (s *Server) cancelPush(c echo.Context) error {
	if err := s.operate(c, "cancel", s.Operator.Cancel); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}
