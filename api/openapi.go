package api

import (
	_ "embed" // the description
	"net/http"

	"github.com/labstack/echo/v4"
)

// openAPI describes every call of the API to programs and people.
//
//go:embed openapi.yaml
var openAPI []byte

func (s *Server) describe(c echo.Context) error {
	return c.Blob(http.StatusOK, "application/yaml", openAPI)
}
