package api

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"
)

// BenchmarkAcceptPush takes pushes into a real Redis, from 32 callers for each
// processor, without connections and their cost.
func BenchmarkAcceptPush(b *testing.B) {
	handler := New(prepareService(b).options).http.Handler
	const body = `{"platform":"IOS","messagePrototypeKey":"Hello","pushKey":"463B3209-6E33-4E88-AF52-CDA87C0550EC","message":"Hello client!"}`
	b.ReportAllocs()
	b.SetParallelism(32)
	b.RunParallel(func(loop *testing.PB) {
		for loop.Next() {
			request := httptest.NewRequest(http.MethodPost, "/push", strings.NewReader(body))
			request.Header.Set(echo.HeaderContentType, echo.MIMEApplicationJSON)
			answer := httptest.NewRecorder()
			handler.ServeHTTP(answer, request)
			if answer.Code != http.StatusAccepted {
				b.Errorf("answered %d: %s", answer.Code, answer.Body)
				return
			}
		}
	})
}
