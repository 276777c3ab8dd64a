package api

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"
)

// postPush posts a push without a connection and its cost.
func postPush(t testing.TB, handler http.Handler) {
	const body = `{"platform":"IOS","messagePrototypeKey":"Hello","pushKey":"463B3209-6E33-4E88-AF52-CDA87C0550EC","message":"Hello client!"}`
	request := httptest.NewRequest(http.MethodPost, "http://localhost/push", strings.NewReader(body))
	request.Header.Set(echo.HeaderContentType, echo.MIMEApplicationJSON)
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, request)
	if answer.Code != http.StatusAccepted {
		t.Errorf("answered %d: %s", answer.Code, answer.Body)
	}
}

// BenchmarkAcceptPush takes pushes into a real Redis, from 32 callers for each
// processor.
func BenchmarkAcceptPush(b *testing.B) {
	handler := New(prepareService(b).options).http.Handler
	b.ReportAllocs()
	b.SetParallelism(32)
	b.RunParallel(func(loop *testing.PB) {
		for loop.Next() {
			postPush(b, handler)
		}
	})
}
