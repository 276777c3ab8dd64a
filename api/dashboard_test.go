package api

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pushq/internal/metrics"
)

const (
	dashboardUser     = "operator"
	dashboardPassword = "correct-horse:battery"
)

// dashboardServer counts the requests that its dashboard gets.
func dashboardServer(password string, seen *int) http.Handler {
	options := Options{
		Log:     slog.New(slog.DiscardHandler),
		APIKeys: map[string]string{"shop": shopKey},
		Metrics: metrics.New("test", slog.New(slog.DiscardHandler)),
		Dashboard: Dashboard{
			Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				*seen++
				w.WriteHeader(http.StatusNoContent)
			}),
		},
	}
	if password != "" {
		options.Dashboard.User, options.Dashboard.Password = dashboardUser, password
	}
	return New(options).http.Handler
}

func TestWhoMayOpenTheDashboard(t *testing.T) {
	t.Parallel()
	const page, queues, runAll = "/monitoring", "/monitoring/api/queues", "/monitoring/api/queues/swrve/archived_tasks:run_all"
	const here, elsewhere = "127.0.0.1:4711", "192.0.2.7:4711"
	basic := func(user, password string) http.Header {
		request := http.Request{Header: http.Header{}}
		request.SetBasicAuth(user, password)
		return request.Header
	}
	header := func(pairs ...string) http.Header {
		result := http.Header{}
		for place := 0; place < len(pairs); place += 2 {
			result.Set(pairs[place], pairs[place+1])
		}
		return result
	}
	known := func(pairs ...string) http.Header {
		result := header(pairs...)
		result.Set("Authorization", basic(dashboardUser, dashboardPassword).Get("Authorization"))
		return result
	}
	type visit struct {
		method, path, remote, host string
		header                     http.Header
		want                       int // 204: it has been let through
	}
	for name, visits := range map[string]struct {
		password string
		visits   map[string]visit
	}{
		"no password": {"", map[string]visit{
			"page":                   {"GET", page, here, "127.0.0.1:8080", nil, 204},
			"page with slash":        {"GET", page + "/", here, "127.0.0.1:8080", nil, 204},
			"data":                   {"GET", queues, here, "127.0.0.1:8080", nil, 204},
			"HEAD":                   {"HEAD", queues, here, "127.0.0.1:8080", nil, 204},
			"client IPv6":            {"GET", queues, "[::1]:4711", "[::1]:8080", nil, 204},
			"client IPv4 in IPv6":    {"GET", queues, "[::ffff:127.0.0.1]:4711", "127.0.0.1", nil, 204},
			"client 127/8":           {"GET", queues, "127.9.9.9:1", "127.9.9.9:1", nil, 204},
			"localhost":              {"GET", queues, here, "localhost", nil, 204},
			"localhost and port":     {"GET", queues, here, "LocalHost:1", nil, 204},
			"IPv6 without port":      {"GET", queues, here, "[::1]", nil, 204},
			"client elsewhere":       {"GET", queues, elsewhere, "127.0.0.1:8080", nil, 403},
			"client IPv6 elsewhere":  {"GET", queues, "[2001:db8::1]:1", "[::1]:8080", nil, 403},
			"private client":         {"GET", queues, "10.0.0.1:1", "localhost", nil, 403},
			"unreadable client":      {"GET", queues, "@", "localhost", nil, 403},
			"claims to be here":      {"GET", queues, elsewhere, "localhost", header("X-Forwarded-For", "127.0.0.1", "X-Real-IP", "127.0.0.1", "Forwarded", "for=127.0.0.1"), 403},
			"with an API key":        {"GET", queues, elsewhere, "localhost", header("Authorization", "Bearer "+shopKey), 403},
			"with empty credentials": {"GET", queues, elsewhere, "localhost", basic("", ""), 403},
			"rebound name":           {"GET", queues, here, "evil.example:8080", nil, 403},
			"rebound page":           {"GET", page, here, "evil.example:8080", nil, 403},
			"name like localhost":    {"GET", queues, here, "localhost.evil.example", nil, 403},
			"name like an address":   {"GET", queues, here, "127.0.0.1.evil.example:80", nil, 403},
			"other address":          {"GET", queues, here, "192.0.2.1:8080", nil, 403},
			"all addresses":          {"GET", queues, here, "0.0.0.0:8080", nil, 403},
			"no host":                {"GET", queues, here, "", nil, 403},
			"user in host":           {"GET", queues, here, "localhost@evil.example", nil, 403},
			"forwarded host":         {"GET", queues, here, "evil.example", header("X-Forwarded-Host", "localhost"), 403},
			"POST of a program":      {"POST", runAll, here, "localhost:8080", nil, 204},
			"POST of the page":       {"POST", runAll, here, "localhost:8080", header("Sec-Fetch-Site", "same-origin", "Origin", "http://localhost:8080"), 204},
			"POST of the old page":   {"POST", runAll, here, "localhost:8080", header("Origin", "http://localhost:8080"), 204},
			"POST of another site":   {"POST", runAll, here, "localhost:8080", header("Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"), 403},
			"POST, old browser":      {"POST", runAll, here, "localhost:8080", header("Origin", "https://evil.example"), 403},
			"POST, other port":       {"POST", runAll, here, "localhost:8080", header("Sec-Fetch-Site", "same-site", "Origin", "http://localhost:9999"), 403},
			"POST of a sandbox":      {"POST", runAll, here, "localhost:8080", header("Origin", "null"), 403},
			"DELETE of another site": {"DELETE", queues + "/swrve", here, "localhost:8080", header("Sec-Fetch-Site", "cross-site"), 403},
			"GET of the page":        {"GET", queues, here, "localhost:8080", header("Sec-Fetch-Site", "same-origin"), 204},
			"GET of another site":    {"GET", queues, here, "localhost:8080", header("Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "empty"), 403},
			"GET, other port":        {"GET", queues, here, "localhost:8080", header("Sec-Fetch-Site", "same-site", "Origin", "http://localhost:9999"), 403},
			"GET, old browser":       {"GET", queues, here, "localhost:8080", header("Origin", "https://evil.example"), 403},
			"frame of another site":  {"GET", page, here, "localhost:8080", header("Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"), 403},
			"link of another site":   {"GET", page, here, "localhost:8080", header("Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"), 204},
			"DELETE of the page":     {"DELETE", queues + "/swrve", here, "localhost:8080", header("Sec-Fetch-Site", "same-origin"), 204},
		}},
		"password": {dashboardPassword, map[string]visit{
			"from elsewhere":        {"GET", queues, elsewhere, "pushq.example", known(), 204},
			"page":                  {"GET", page, elsewhere, "pushq.example", known(), 204},
			"from here":             {"GET", page + "/", here, "localhost", known(), 204},
			"nothing, from here":    {"GET", queues, here, "localhost", nil, 401},
			"nothing, page":         {"GET", page, here, "localhost", nil, 401},
			"nothing, HEAD":         {"HEAD", page, here, "localhost", nil, 401},
			"nothing, OPTIONS":      {"OPTIONS", queues, here, "localhost", nil, 401},
			"nothing, POST":         {"POST", runAll, here, "localhost", nil, 401},
			"wrong password":        {"GET", queues, here, "localhost", basic(dashboardUser, dashboardPassword+"x"), 401},
			"part of the password":  {"GET", queues, here, "localhost", basic(dashboardUser, dashboardPassword[:13]), 401},
			"empty password":        {"GET", queues, here, "localhost", basic(dashboardUser, ""), 401},
			"wrong user":            {"GET", queues, here, "localhost", basic("Operator", dashboardPassword), 401},
			"empty user":            {"GET", queues, here, "localhost", basic("", dashboardPassword), 401},
			"API key":               {"GET", queues, here, "localhost", header("Authorization", "Bearer "+shopKey), 401},
			"API key as password":   {"GET", queues, here, "localhost", basic("shop", shopKey), 401},
			"password as API key":   {"GET", queues, here, "localhost", header("Authorization", "Bearer "+dashboardPassword), 401},
			"POST of a program":     {"POST", runAll, elsewhere, "pushq.example", known(), 204},
			"POST of the page":      {"POST", runAll, elsewhere, "pushq.example", known("Origin", "https://pushq.example", "Sec-Fetch-Site", "same-origin"), 204},
			"POST of another site":  {"POST", runAll, elsewhere, "pushq.example", known("Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"), 403},
			"POST of a sibling":     {"POST", runAll, elsewhere, "pushq.example", known("Origin", "https://a.pushq.example", "Sec-Fetch-Site", "same-site"), 403},
			"POST, old browser":     {"POST", runAll, elsewhere, "pushq.example", known("Origin", "https://evil.example"), 403},
			"GET of another site":   {"GET", queues, elsewhere, "pushq.example", known("Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "cors", "Sec-Fetch-Dest", "empty"), 403},
			"link of another site":  {"GET", page, elsewhere, "pushq.example", known("Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"), 204},
			"its password, the API": {"GET", "/push", elsewhere, "pushq.example", known(), 401},
		}},
	} {
		for visitName, visit := range visits.visits {
			t.Run(name+"/"+visitName, func(t *testing.T) {
				t.Parallel()
				seen := 0
				request := httptest.NewRequest(visit.method, visit.path, nil)
				request.RemoteAddr, request.Host = visit.remote, visit.host
				if visit.header != nil {
					request.Header = visit.header
				}
				recorder := httptest.NewRecorder()
				dashboardServer(visits.password, &seen).ServeHTTP(recorder, request)

				require.Equal(t, visit.want, recorder.Code, recorder.Body)
				require.Equal(t, visit.want == http.StatusNoContent, seen == 1)
				if strings.HasPrefix(visit.path, page) {
					requireDashboardHeaders(t, recorder.Header())
					require.Equal(t, visit.want == http.StatusUnauthorized, strings.HasPrefix(recorder.Header().Get("WWW-Authenticate"), "Basic "))
				}
				if visit.want != http.StatusNoContent && visit.method != http.MethodHead {
					var problem problemDocument
					require.NoError(t, json.Unmarshal(recorder.Body.Bytes(), &problem), recorder.Body)
					require.Equal(t, visit.want, problem.Status)
					require.NotEmpty(t, problem.Detail)
					require.NotContains(t, recorder.Body.String(), dashboardPassword)
				}
			})
		}
	}
}

func requireDashboardHeaders(t *testing.T, header http.Header) {
	t.Helper()
	require.Equal(t, "DENY", header.Get("X-Frame-Options"))
	require.Equal(t, "nosniff", header.Get("X-Content-Type-Options"))
	require.Equal(t, "no-referrer", header.Get("Referrer-Policy"))
	require.Equal(t, "no-store", header.Get("Cache-Control"))
	require.Contains(t, header.Get("Content-Security-Policy"), "default-src 'none'")
	require.Contains(t, header.Get("Content-Security-Policy"), "frame-ancestors 'none'")
}

// Whatever is written for the dashboard's address and whatever the method is,
// nobody gets there without the rules.
func TestNoWayAroundTheDashboardsRules(t *testing.T) {
	t.Parallel()
	paths := []string{
		"/monitoring", "/monitoring/", "/monitoring/api/queues", "/monitoring//api/queues", "//monitoring/api/queues",
		"/monitoring/./api/queues", "/push/../monitoring/api/queues", "/monitoring/../monitoring/api/queues", "/monitoring/..",
		"/%6Donitoring", "/%6Donitoring/api/queues", "/monitoring%2Fapi%2Fqueues", "/monitoring%2fapi/queues", "/monitoring/%61pi/queues",
		"/monitoring/api%2Fqueues", "/monitoring%00/api/queues", "/monitoring;/api/queues", "/monitoring/;/api/queues", "/Monitoring/api/queues",
		"/monitoring/api/queues?key=" + shopKey, "/health/live/../../monitoring/api/queues", "/health/live%2F..%2F..%2Fmonitoring", "/monitoring%252Fapi",
		"http://127.0.0.1/monitoring/api/queues",
	}
	for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "REPORT", "PURGE", "get"} {
		for _, path := range paths {
			for _, password := range []string{"", dashboardPassword} {
				seen := 0
				request := httptest.NewRequest(http.MethodGet, path, nil)
				request.Method, request.RemoteAddr, request.Host = method, "192.0.2.7:1", "localhost"
				recorder := httptest.NewRecorder()
				dashboardServer(password, &seen).ServeHTTP(recorder, request)
				require.Zero(t, seen, "%s %s", method, path)
				require.Contains(t, []int{401, 403, 404, 405}, recorder.Code, "%s %s", method, path)
			}
		}
	}
}
