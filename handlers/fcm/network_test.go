package fcm

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/handlers"
	"pushq/internal/fcmsim"
	"pushq/internal/testenv"
	"pushq/tasks"
)

func TestNetworkErrors(t *testing.T) {
	t.Parallel()
	simulator, base := startSimulator(t, fcmsim.Config{})
	silent, err := net.Listen("tcp", "127.0.0.1:0") // the kernel accepts, nobody answers
	require.NoError(t, err)
	t.Cleanup(func() { _ = silent.Close() })
	const short, long = 2 * time.Second, time.Minute
	for name, test := range map[string]struct {
		url, token     string
		timeout        time.Duration
		maybeDelivered bool
		message        string
	}{
		"refused":                  {"http://" + testenv.FreeAddress(t), "ann", long, false, "connection refused"},
		"no such host":             {"http://no..such.host", "ann", long, false, "no such host"},
		"no TLS on the other side": {strings.Replace(base, "http:", "https:", 1), "ann", long, false, "TLS"},
		"timeout in the handshake": {"https://" + silent.Addr().String(), "ann", short, false, "timeout"},
		"nobody answers":           {"http://" + silent.Addr().String(), "ann", short, true, "timeout after 2s"},
		"hangs":                    {base, "hang-ann", short, true, "timeout after 2s"},
		"delivers and hangs":       {base, "ok-then-hang-ann", short, true, "timeout after 2s"},
		"reset":                    {base, "reset-ann", long, true, "connection reset"},
		"delivers and resets":      {base, "ok-then-reset-ann", long, true, "connection reset"},
		"closed without an answer": {answerRaw(t, ""), "ann", long, true, "EOF"},
	} {
		for _, mode := range []string{V1, Legacy} {
			t.Run(name+" "+mode, func(t *testing.T) {
				t.Parallel()
				configured := options(t, simulator, base)
				configured.Mode, configured.URL, configured.Timeout = mode, test.url, test.timeout
				provider := newProvider(t, configured)
				if mode == V1 {
					_, err := provider.tokens.get()
					require.NoError(t, err)
				}
				began := time.Now()
				outcome := provider.send(t.Context(), messageTo(test.token))
				took := time.Since(began)
				if test.timeout == short {
					require.GreaterOrEqual(t, took, short)
				}
				require.Less(t, took, test.timeout+time.Minute)
				require.True(t, strings.HasPrefix(outcome.ErrorMessage, "no answer: "), outcome.ErrorMessage)
				require.Contains(t, outcome.ErrorMessage, test.message)
				require.NotContains(t, outcome.ErrorMessage, serverKey)
				outcome.ErrorMessage = ""
				require.Equal(t, handlers.Outcome{
					Verdict: handlers.Retryable, ErrorType: tasks.ErrorOther, MaybeDelivered: test.maybeDelivered, ServiceFailed: true,
				}, outcome)
			})
		}
	}
}

// startSecure serves a simulator by HTTP/2, wrapped, and counts connections.
func startSecure(t *testing.T, wrap func(http.Handler) http.Handler) (simulator *fcmsim.Simulator, base string, connections *atomic.Int32) {
	t.Helper()
	simulator, connections = newSimulator(t, fcmsim.Config{}), new(atomic.Int32)
	server := httptest.NewUnstartedServer(wrap(simulator.Handler()))
	server.EnableHTTP2 = true
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	return simulator, server.URL, connections
}

// A server that ends connections by GOAWAY costs no message.
func TestGoAway(t *testing.T) {
	t.Parallel()
	const messages, streams = 30, 5
	for _, senders := range []int{1, 2, 4} {
		var requests, others atomic.Int32
		simulator, base, connections := startSecure(t, func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.ProtoMajor != 2 {
					others.Add(1)
				}
				if r.URL.Path != "/token" && requests.Add(1)%streams == 0 {
					w.Header().Set("Connection", "close") // in HTTP/2 a GOAWAY
				}
				next.ServeHTTP(w, r)
			})
		})
		provider := newProvider(t, options(t, simulator, base))
		var running sync.WaitGroup
		for range senders {
			running.Go(func() {
				for range messages {
					if outcome := provider.send(t.Context(), messageTo("ann")); outcome.Verdict != handlers.Delivered {
						t.Errorf("not delivered: %+v", outcome)
					}
				}
			})
		}
		running.Wait()
		require.Equal(t, messages*senders, simulator.Stats().Delivered)
		require.Zero(t, others.Load())
		require.GreaterOrEqual(t, connections.Load(), int32(messages/streams))
	}
}

// A request on a connection that the server closes at that moment cannot be told from
// one that was taken; it is up to the pipeline to make it again.
func TestAServerThatDropsIdleConnections(t *testing.T) {
	t.Parallel()
	const messages = 30
	var taken atomic.Int32
	closed := make(chan struct{}, 3*messages)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		taken.Add(1)
		_, _ = io.WriteString(w, `{"name":"projects/simulator/messages/1"}`)
	}))
	server.Config.IdleTimeout = 5 * time.Millisecond
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			closed <- struct{}{}
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	provider := providerFor(t, V1, server.URL)
	for range messages {
		outcome := provider.send(t.Context(), messageTo("ann"))
		if outcome.Verdict != handlers.Delivered {
			require.Equal(t, handlers.Retryable, outcome.Verdict)
			require.True(t, outcome.MaybeDelivered)
			outcome = provider.send(t.Context(), messageTo("ann"))
		}
		require.Equal(t, handlers.Outcome{}, outcome)
		<-closed
	}
	require.EqualValues(t, messages, taken.Load())
}

func TestConnectionsAreKept(t *testing.T) {
	t.Parallel()
	const senders, messages = 20, 25
	sendAll := func(provider *Provider) {
		var running sync.WaitGroup
		for range senders {
			running.Go(func() {
				for i := range messages {
					token := "ann"
					if i%5 == 0 {
						token = "UNREGISTERED-ann" // its answer is read as well
					}
					provider.send(t.Context(), messageTo(token))
				}
			})
		}
		running.Wait()
	}
	t.Run("HTTP/1", func(t *testing.T) {
		t.Parallel()
		simulator, provider := startProvider(t, V1)
		simulator.SetLatency(2 * time.Millisecond)
		sendAll(provider)
		require.Equal(t, senders*messages, simulator.Stats().Requests)
		require.LessOrEqual(t, simulator.Stats().Connections, 2*provider.Connections+1, "one is for the access token, and none is used for ever")
	})
	t.Run("HTTP/2", func(t *testing.T) {
		t.Parallel()
		simulator, base, connections := startSecure(t, func(next http.Handler) http.Handler { return next })
		provider := newProvider(t, options(t, simulator, base))
		delivers(t, provider, 1) // the others find a connection
		sendAll(provider)
		require.Equal(t, senders*messages+1, simulator.Stats().Requests)
		require.LessOrEqual(t, connections.Load(), int32(senders), "one is for the access token, and none is used for ever")
	})
}
