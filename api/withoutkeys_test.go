package api

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func requireForbidden(t *testing.T, got answer, detail string) {
	t.Helper()
	require.Equal(t, http.StatusForbidden, got.status, got.body)
	require.Equal(t, "forbidden", got.kind())
	require.Contains(t, got.problem.Detail, detail)
	require.Empty(t, got.header.Get("Allow"))
}

// A page whose name has been pointed at this host (DNS rebinding) reads nothing and sends
// nothing, whatever it asks for.
func TestWithoutKeysAnswersAreForThisHostOnly(t *testing.T) {
	t.Parallel()
	s := startService(t)
	id := s.accept(push())
	for _, operation := range append(description.Operations(), "GET /push?status=PENDING", "GET /push/"+id, "DELETE /push/"+id, "GET /nothing", "PUT /push") {
		method, path, _ := strings.Cut(operation, " ")
		path = strings.ReplaceAll(path, "{id}", id)
		got := s.sendTo("evil.example:8080", method, path, nil, "Sec-Fetch-Site", "same-origin")
		if path == livePath || path == readyPath {
			require.Equal(t, http.StatusOK, got.status, operation)
			continue
		}
		requireForbidden(t, got, "must begin with localhost")
		require.NotContains(t, got.body, id)
	}
	requireForbidden(t, s.sendTo("evil.example", http.MethodPost, "/push", strings.NewReader(push()), "Content-Type", jsonType), "must begin with localhost")
	requireForbidden(t, s.sendTo("evil.example", http.MethodPost, "/push/batch", strings.NewReader(array(push())), "Content-Type", jsonType), "must begin with localhost")
	require.Equal(t, 1, s.queued(), "nothing was accepted")
	for _, raw := range []string{
		"GET /push?status=PENDING HTTP/1.0\r\n\r\n",
		"GET /push?status=PENDING HTTP/1.0\r\nHost:\r\n\r\n",
		"GET http://evil.example/push?status=PENDING HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
		"GET /push?status=PENDING HTTP/1.1\r\nHost: evil.example\r\nX-Forwarded-Host: localhost\r\nConnection: close\r\n\r\n",
	} {
		requireForbidden(t, s.exchange(raw), "must begin with localhost")
	}
	for _, host := range []string{"localhost", "LocalHost:80", "localhost.:8080", "127.0.0.1", "127.0.0.1:1", "[::1]:8080"} {
		require.Equal(t, http.StatusOK, s.sendTo(host, http.MethodGet, "/push?status=PENDING", nil).status, host)
	}
}

// A browser sends requests to this host for any page that it shows.
func TestWithoutKeysPagesOfOtherSitesAreRefused(t *testing.T) {
	t.Parallel()
	for _, anyHost := range []bool{false, true} {
		s := prepareService(t)
		s.options.AnyHost = anyHost
		s.start()
		for _, header := range [][]string{
			{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "empty"},
			{"Sec-Fetch-Site", "same-site", "Origin", "http://localhost:9999"},
			{"Origin", "https://evil.example"},
			{"Origin", "null"},
		} {
			const reason = "comes from a page of another site"
			requireForbidden(t, s.post(push(), header...), reason)
			requireForbidden(t, s.postBatch(jsonType, array(push()), header...), reason)
			requireForbidden(t, s.get("/push?status=PENDING", header...), reason)
			requireForbidden(t, s.get("/metrics", header...), reason)
			requireForbidden(t, s.get("/health", header...), reason)
			require.Equal(t, http.StatusOK, s.get("/health/ready", header...).status)
		}
		require.Zero(t, s.queued())
		link := []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}
		require.Equal(t, http.StatusOK, s.get("/health", link...).status, "a link on another page is followed")
		s.accept(push(), "Sec-Fetch-Site", "same-origin", "Origin", "http://"+s.address)
		s.accept(push(), "Origin", "http://"+s.address)
	}
}

// Who is let in whatever his address is may use any name for the server; so may who has a key.
func TestAnyHost(t *testing.T) {
	t.Parallel()
	open := prepareService(t)
	open.options.AnyHost = true
	open.start()
	require.Equal(t, http.StatusOK, open.sendTo("push.example", http.MethodGet, "/push?status=SENT", nil).status)

	keyed := startServiceWithKeys(t)
	require.Equal(t, http.StatusOK, keyed.sendTo("push.example", http.MethodGet, "/push?status=SENT", nil,
		"Authorization", "Bearer "+shopKey, "Sec-Fetch-Site", "cross-site").status, "a key is not sent by itself")
}

// A process that only works has nothing under /push, and metrics and health all the same.
func TestAWorkerWithoutKeysAnswersForThisHostOnly(t *testing.T) {
	t.Parallel()
	s := prepareService(t)
	s.options.Intake, s.options.Reader, s.options.Operator = nil, nil, nil
	handler := New(s.options).http.Handler
	for address, want := range map[string]int{"/metrics": 403, "/health": 403, "/openapi.yaml": 403, "/push": 403, livePath: 200, readyPath: 200} {
		request, recorder := httptest.NewRequest(http.MethodGet, address, nil), httptest.NewRecorder()
		request.Host = "evil.example"
		handler.ServeHTTP(recorder, request)
		require.Equal(t, want, recorder.Code, address)
	}
}
