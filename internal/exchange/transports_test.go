package exchange

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/testenv"
)

// However requests come, none goes to a transport that is older than two turns, and they
// move from one to the next little by little.
func TestRequestsMoveFromTransportToTransport(t *testing.T) {
	t.Parallel()
	const turn = usualTurn
	for name, pause := range map[string]time.Duration{
		"two hundred a second": 5 * time.Millisecond, "one in five seconds": 5 * time.Second,
		"one in a turn": turn, "one in two turns": 2 * turn, "now and then": 3*turn + turn/2, "one an hour": time.Hour,
	} {
		rounds := 500
		if pause < time.Second {
			rounds = int(5 * turn / pause)
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				opened := map[*http.Transport]time.Time{}
				all := newTransports(func() *http.Transport {
					transport := &http.Transport{}
					opened[transport] = time.Now()
					return transport
				})
				began := time.Now()
				first := map[*http.Transport]bool{all.former: true, all.next: true}
				moved, busiest := map[time.Duration]int{}, 0 // by second: how many went to the newer one
				for range rounds {
					time.Sleep(pause)
					chosen := all.choose()
					require.LessOrEqual(t, time.Since(opened[chosen]), 2*turn)
					if chosen == all.next {
						second := time.Since(began).Truncate(time.Second)
						moved[second]++
						busiest = max(busiest, moved[second])
					}
					if first[chosen] {
						require.Less(t, time.Since(began), 2*turn)
					}
				}
				if rounds > 500 {
					require.Less(t, moved[4*turn], 40, "at its beginning a few do")
					require.Greater(t, busiest, 160, "at the end of a turn almost all go to the next one")
				}
			})
		})
	}
}

// The name of a provider leads elsewhere, and requests come all the time.
func TestANameThatLeadsElsewhereUnderLoad(t *testing.T) {
	t.Parallel()
	for protocol, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2.0": true} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			var openAtFirst atomic.Int32
			serve := func(open *atomic.Int32) *httptest.Server {
				server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.Proto != protocol {
						t.Errorf("a request by %s", r.Proto)
					}
					_, _ = io.WriteString(w, r.Context().Value(http.LocalAddrContextKey).(net.Addr).String())
				}))
				server.EnableHTTP2 = true
				server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
					switch state {
					case http.StateNew:
						open.Add(1)
					case http.StateClosed:
						open.Add(-1)
					}
				}
				server.StartTLS()
				t.Cleanup(server.Close)
				return server
			}
			first, second := serve(&openAtFirst).Listener.Addr().String(), serve(new(atomic.Int32)).Listener.Addr().String()
			var address atomic.Value
			address.Store(first)
			client := New(Options{Timeout: 30 * time.Second, Connections: 8, HTTP2: http2})
			t.Cleanup(client.Close)
			client.dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, network, address.Load().(string))
			}
			client.transports.former, client.transports.next = client.transports.open(), client.transports.open()
			client.transports.turn = 300 * time.Millisecond

			answered := map[string]*atomic.Int32{first: {}, second: {}}
			ctx, stop := context.WithCancel(t.Context())
			var callers sync.WaitGroup
			for range 8 {
				callers.Go(func() {
					for ctx.Err() == nil {
						request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://example.com/", strings.NewReader("body"))
						if err != nil {
							t.Error(err)
							return
						}
						answer, unanswered := client.Do(request)
						if unanswered != nil {
							t.Error(unanswered.Reason)
							return
						}
						answered[string(answer.Body)].Add(1)
					}
				})
			}
			defer callers.Wait()
			defer stop()
			testenv.Eventually(t, 30*time.Second, "the first server to answer", func() bool { return answered[first].Load() > 100 })
			address.Store(second)
			testenv.Eventually(t, 30*time.Second, "no connection to the first server", func() bool { return openAtFirst.Load() == 0 })
			before := answered[first].Load()
			testenv.Eventually(t, 30*time.Second, "the second server to answer", func() bool { return answered[second].Load() > 100 })
			require.Equal(t, before, answered[first].Load())
		})
	}
}
