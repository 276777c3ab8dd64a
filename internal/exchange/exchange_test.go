package exchange_test

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/exchange"
	"pushq/internal/testenv"
)

// What HTTP/1 does at errors and when the process is frozen is tested with the push
// providers that use it.

func TestMain(m *testing.M) {
	testenv.WithoutProxies()
	forget := testenv.TrustTestServers()
	code := m.Run()
	forget()
	os.Exit(code)
}

func newClient(t *testing.T, options exchange.Options) *exchange.Client {
	t.Helper()
	client := exchange.New(options)
	t.Cleanup(client.Close)
	return client
}

func post(t *testing.T, client *exchange.Client, address string) (exchange.Answer, *exchange.NoAnswer) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader("body"))
	require.NoError(t, err)
	return client.Do(request)
}

func startTLS(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.EnableHTTP2 = true
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

func TestProtocol(t *testing.T) {
	t.Parallel()
	server := startTLS(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) })
	for allowed, want := range map[bool]string{false: "HTTP/1.1", true: "HTTP/2.0"} {
		answer, unanswered := post(t, newClient(t, exchange.Options{Timeout: 10 * time.Second, Connections: 1, HTTP2: allowed}), server.URL)
		require.Nil(t, unanswered)
		require.Equal(t, want, string(answer.Body))
		require.Equal(t, http.StatusOK, answer.Status)
		require.False(t, answer.Cut)
	}
}

func TestHTTP2SharesAConnection(t *testing.T) {
	t.Parallel()
	const together = 50
	var connections atomic.Int32
	arrived := make(chan struct{}, together)
	release := make(chan struct{})
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		arrived <- struct{}{}
		<-release
	}))
	server.EnableHTTP2 = true
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	client := newClient(t, exchange.Options{Timeout: 10 * time.Second, Connections: together, HTTP2: true})
	go func() { <-arrived; close(release) }()
	_, unanswered := post(t, client, server.URL)
	require.Nil(t, unanswered)

	release = make(chan struct{})
	var running sync.WaitGroup
	for range together {
		running.Go(func() {
			if _, unanswered := post(t, client, server.URL); unanswered != nil {
				t.Error(unanswered.Reason)
			}
		})
	}
	for range together {
		<-arrived
	}
	close(release)
	running.Wait()
	require.Less(t, connections.Load(), int32(together/2), "those that go to the next transport share one, once it is open")
}

func TestHTTP2WithoutAnAnswer(t *testing.T) {
	t.Parallel()
	const timeout = 2 * time.Second // the handshake is part of it
	server := startTLS(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/hang":
			<-r.Context().Done()
		case "/abort":
			panic(http.ErrAbortHandler)
		case "/cut":
			w.Header().Set("Content-Length", "100")
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, "busy")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
	})
	client := newClient(t, exchange.Options{Timeout: timeout, Connections: 1, HTTP2: true})
	for path, reason := range map[string]string{"/hang": "timeout after 2s", "/abort": "stream error"} {
		began := time.Now()
		_, unanswered := post(t, client, server.URL+path)
		require.NotNil(t, unanswered)
		require.True(t, unanswered.MaybeDelivered, unanswered.Reason)
		require.Contains(t, unanswered.Reason, reason)
		require.Less(t, time.Since(began), client.MaxDuration()+time.Minute, "late on a busy machine, but not for ever")
	}
	answer, unanswered := post(t, client, server.URL+"/cut")
	require.Nil(t, unanswered)
	require.Equal(t, http.StatusServiceUnavailable, answer.Status)
	require.Equal(t, "busy", string(answer.Body))
	require.True(t, answer.Cut)
}

func TestABodyIsNotReadToItsEnd(t *testing.T) {
	t.Parallel()
	const size = 32 << 20
	server := startTLS(t, func(w http.ResponseWriter, _ *http.Request) {
		part := make([]byte, 32<<10)
		for range size / len(part) {
			if _, err := w.Write(part); err != nil {
				return
			}
		}
	})
	answer, unanswered := post(t, newClient(t, exchange.Options{Timeout: 10 * time.Second, Connections: 1, HTTP2: true}), server.URL)
	require.Nil(t, unanswered)
	require.Len(t, answer.Body, 64<<10)
	require.True(t, answer.Cut)
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"":                                 0,
		"0":                                0,
		"120":                              2 * time.Minute,
		" 120 ":                            2 * time.Minute,
		"86400":                            24 * time.Hour,
		"99999999999999999999":             (1<<31 - 1) * time.Second,
		"Sat, 28 Nov 2026 12:02:00 GMT":    2 * time.Minute,
		"Saturday, 28-Nov-26 12:02:00 GMT": 2 * time.Minute,
		"Sat Nov 28 12:02:00 2026":         2 * time.Minute,
		"Sat, 28 Nov 2026 11:58:00 GMT":    0,
		"-5":                               0,
		"1.5":                              0,
		"abc":                              0,
	} {
		header := http.Header{}
		header.Set("retry-after", text)
		require.Equal(t, want, exchange.RetryAfter(header, now), text)
	}
	require.Zero(t, exchange.RetryAfter(http.Header{}, now))
}
