package main

import (
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/testenv"
)

// The pages of a command come over one connection, which ends with it.
func TestOneConnectionServesAllCalls(t *testing.T) {
	t.Parallel()
	var opened, closed atomic.Int64
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			opened.Add(1)
		case http.StateClosed:
			closed.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	client := pushClient{server: server.URL}
	for range 3 {
		_, _, err := client.call(t.Context(), http.MethodPost, "/", nil, []byte("{}"))
		require.ErrorContains(t, err, "the server answered 404")
	}
	require.EqualValues(t, 1, opened.Load())
	client.close()
	testenv.Eventually(t, 5*time.Second, "the connection to end", func() bool { return closed.Load() == 1 })
}
