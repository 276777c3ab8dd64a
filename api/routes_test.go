package api

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"pushq/tasks"
)

// everyAddress lists what the router knows, and what it does not.
func everyAddress(t *testing.T, handler http.Handler) []string {
	t.Helper()
	addresses := map[string]bool{"/": true, "/nothing": true, "/metrics": true, "/openapi.yaml": true, "/.env": true, "*": true}
	for _, route := range handler.(*echo.Echo).Routes() {
		path := strings.ReplaceAll(route.Path, ":id", tasks.NewID())
		require.NotContains(t, path, ":", "teach this test the parameter")
		addresses[strings.ReplaceAll(path, "*", "api/queues")] = true
	}
	require.Greater(t, len(addresses), 12)
	var list []string
	for address := range addresses {
		list = append(list, address)
	}
	return list
}

var everyMethod = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions,
	http.MethodTrace, http.MethodConnect, "PROPFIND", "REPORT", "PURGE", "get",
}

// Whatever route is added, nothing but the two open ones answers without a key,
// and what does not is told from nothing.
func TestNoRouteAnswersWithoutAKey(t *testing.T) {
	t.Parallel()
	s := prepareService(t)
	s.options.APIKeys = map[string]string{"secret-name-shop": shopKey}
	seen := 0
	s.options.Dashboard = Dashboard{User: dashboardUser, Password: dashboardPassword, Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { seen++ })}
	handler := New(s.options).http.Handler
	bodies := map[string]bool{}
	for _, address := range everyAddress(t, handler) {
		for _, method := range everyMethod {
			for _, authorization := range []string{"", "Bearer wrong-key-0123456789", "Basic d3Jvbmc6d3Jvbmc="} {
				request := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(push()))
				request.Method, request.URL.Path = method, address
				request.Header.Set("Content-Type", "application/json")
				if authorization != "" {
					request.Header.Set("Authorization", authorization)
				}
				recorder := httptest.NewRecorder()
				handler.ServeHTTP(recorder, request)
				what := fmt.Sprintf("%s %s as %q: %d %s", method, address, authorization, recorder.Code, recorder.Body)

				require.Equal(t, "nosniff", recorder.Header().Get("X-Content-Type-Options"), what)
				require.Equal(t, "no-store", recorder.Header().Get("Cache-Control"), what)
				if address == livePath || address == readyPath {
					require.Contains(t, []int{http.StatusOK, http.StatusNoContent, http.StatusUnauthorized, http.StatusMethodNotAllowed}, recorder.Code, what)
					continue
				}
				require.Equal(t, http.StatusUnauthorized, recorder.Code, what)
				require.Empty(t, recorder.Header().Get("Allow"), what)
				scheme := "Bearer"
				if strings.HasPrefix(address, DashboardPath) && recorder.Header().Get("WWW-Authenticate") != "Bearer" {
					scheme = `Basic realm="pushq dashboard", charset="UTF-8"`
				}
				require.Equal(t, scheme, recorder.Header().Get("WWW-Authenticate"), what)
				if scheme == "Bearer" && recorder.Body.Len() > 0 {
					bodies[recorder.Body.String()] = true
				}
			}
		}
	}
	require.Len(t, bodies, 1, "the same answer everywhere")
	require.Zero(t, seen)
	require.Zero(t, s.queued())
}

func TestWrongLoginsAreLoggedOnceASecondAtMost(t *testing.T) {
	t.Parallel()
	s := prepareService(t)
	s.options.APIKeys = map[string]string{"shop": shopKey}
	s.options.Dashboard = Dashboard{User: dashboardUser, Password: dashboardPassword, Handler: http.NotFoundHandler()}
	handler := New(s.options).http.Handler
	get := func(path, authorization string) int {
		request, recorder := httptest.NewRequest(http.MethodGet, path, nil), httptest.NewRecorder()
		request.RemoteAddr = "192.0.2.7:4711"
		request.Header.Set("Authorization", authorization)
		handler.ServeHTTP(recorder, request)
		return recorder.Code
	}
	for range 3 {
		require.Equal(t, http.StatusUnauthorized, get("/push", ""))
		require.Equal(t, http.StatusUnauthorized, get("/monitoring", ""))
		require.Equal(t, http.StatusOK, get("/push?status=SENT", "Bearer "+shopKey))
	}
	require.NotContains(t, s.log.String(), "wrong key or password")
	started := time.Now()
	for range 10 {
		require.Equal(t, http.StatusUnauthorized, get("/monitoring", "Basic d3Jvbmc6d3Jvbmc="))
		require.Equal(t, http.StatusUnauthorized, get("/push", "Bearer "+shopKey+"x"))
	}
	require.Contains(t, s.log.String(), `msg="wrong key or password" remote=192.0.2.7:4711 dashboard=true`)
	require.LessOrEqual(t, strings.Count(s.log.String(), "wrong key or password"), 1+int(time.Since(started)/time.Second))
	requireNoCanary(t, s.log.String(), "the log")
}
