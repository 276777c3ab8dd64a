package api

import (
	"encoding/json"

	"github.com/labstack/echo/v4"
)

// writeJSON writes value with its texts as they are: & and < are not escaped.
// A Content-Type that is already set stays.
func writeJSON(c echo.Context, status int, value any) error {
	response := c.Response()
	if response.Header().Get(echo.HeaderContentType) == "" {
		response.Header().Set(echo.HeaderContentType, echo.MIMEApplicationJSON)
	}
	response.WriteHeader(status)
	encoder := json.NewEncoder(response)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}
