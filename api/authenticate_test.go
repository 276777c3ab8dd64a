package api

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	shopKey = canaryAPIKey + "-shop"
	bankKey = canaryAPIKey + "-bank"
)

func startServiceWithKeys(t *testing.T) *testService {
	t.Helper()
	s := prepareService(t)
	s.options.APIKeys = map[string]string{"secret-name-shop": shopKey, "secret-name-bank": bankKey}
	return s.start()
}

func requireUnauthorized(t *testing.T, got answer) {
	t.Helper()
	require.Equal(t, http.StatusUnauthorized, got.status, got.body)
	require.Equal(t, "Bearer", got.header.Get("WWW-Authenticate"))
	require.Empty(t, got.header.Get("Allow"), "nothing is revealed")
	require.Empty(t, got.header.Get("Location"))
	require.NotContains(t, got.body, "secret-name")
}

// The answer is the same everywhere, so that nothing tells which addresses exist.
func TestWithoutAKey(t *testing.T) {
	t.Parallel()
	s := startServiceWithKeys(t)
	first := s.get("/push")
	for _, request := range []struct{ method, path string }{
		{"GET", "/push"}, {"GET", "/push?status=SENT"}, {"POST", "/push"}, {"GET", "/push/01JB0000000000000000000000"},
		{"GET", "/health"}, {"GET", "/"}, {"GET", "/nothing"}, {"DELETE", "/push"}, {"OPTIONS", "/push"}, {"TRACE", "/push"},
		{"GET", "/health/live/"}, {"GET", "//health/live"}, {"GET", "/health//live"}, {"GET", "/health/./live"},
		{"GET", "/health/live/../../push?status=SENT"}, {"GET", "/health%2Flive"}, {"GET", "/%68ealth%2Fready"}, {"GET", "/Health/Live"},
		{"GET", "/health/live%00"}, {"GET", "/health/ready%2F..%2F..%2Fpush"}, {"GET", "/push/..%2Fhealth%2Flive"},
		{"GET", "/health/live;/push"}, {"GET", "/health/"}, {"GET", "*"},
	} {
		t.Run(request.method+" "+request.path, func(t *testing.T) {
			got := s.exchange(request.method + " " + request.path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
			requireUnauthorized(t, got)
			require.Equal(t, first.body, got.body)
		})
	}
	requireUnauthorized(t, s.exchange("OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n"))
	requireUnauthorized(t, s.exchange("GET http://localhost/push HTTP/1.1\r\nHost: localhost\r\n\r\n"))
	requireUnauthorized(t, s.post(push()))
	requireUnauthorized(t, s.post("no JSON", "Content-Type", "text/plain"))
	require.Zero(t, s.queued())
	require.Equal(t, "live\n", s.get("/health/live").body)
	require.Equal(t, "ready\n", s.get("/health/ready").body)
}

func TestKeys(t *testing.T) {
	t.Parallel()
	s := startServiceWithKeys(t)
	for _, key := range []string{shopKey, bankKey} {
		for _, scheme := range []string{"Bearer", "bearer", "BEARER"} {
			require.Equal(t, http.StatusOK, s.get("/push?status=SENT", "Authorization", scheme+" "+key).status)
		}
	}
	for _, value := range []string{
		"", "Bearer", "Bearer ", shopKey, "Basic " + shopKey, "Token " + shopKey, "Bearer  " + shopKey, "Bearer:" + shopKey,
		"Bearer " + shopKey[:len(shopKey)-1], "Bearer " + shopKey + "x", "Bearer " + strings.ToUpper(shopKey),
		"Bearer " + shopKey + "," + bankKey, "Bearer secret-name-shop", "Bearer secret-name-shop:" + shopKey, "Bearer \xff",
	} {
		requireUnauthorized(t, s.get("/push?status=SENT", "Authorization", value))
	}
	requireUnauthorized(t, s.get("/push?status=SENT&key="+shopKey))
	requireUnauthorized(t, s.get("/push?status=SENT", "X-API-Key", shopKey))
	require.Equal(t, http.StatusNotFound, s.get("/nothing", "Authorization", "Bearer "+shopKey).status)
	s.accept(push(), "Authorization", "Bearer "+shopKey)
	require.NotContains(t, s.log.String(), "secret-name")
}
