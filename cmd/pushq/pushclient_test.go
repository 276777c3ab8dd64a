package main

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/swrvesim"
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

func TestTheClientsVariables(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	const key = "0123456789abcdef"
	api := w.startReady("api", `HTTP_APIKEYS={"shop":"`+key+`"}`)
	list := func(environment ...string) (code int, complaint string) {
		process := testenv.StartPushq(t, []string{"push", "list", "--status", "FAILED"}, environment...)
		code = process.Wait(60 * time.Second)
		return code, strings.Join(process.Stderr(), "\n")
	}
	for name, test := range map[string]struct {
		environment []string
		says        string // empty: it works
	}{
		"well":                    {[]string{"PUSHQ_SERVER=" + api.URL(), "PUSHQ_KEY=" + key}, ""},
		"written on Windows":      {[]string{"PUSHQ_SERVER=" + api.URL() + "\r", "PUSHQ_KEY=" + key + "\r\n"}, ""},
		"a slash at the end":      {[]string{"PUSHQ_SERVER=" + api.URL() + "/", "PUSHQ_KEY=" + key}, ""},
		"a key in quotes":         {[]string{"PUSHQ_SERVER=" + api.URL(), `PUSHQ_KEY="` + key + `"`}, "PUSHQ_KEY is in quotes"},
		"a line break in the key": {[]string{"PUSHQ_SERVER=" + api.URL(), "PUSHQ_KEY=" + key + "\nX"}, "PUSHQ_KEY has a blank, a line break"},
		"the path of a call":      {[]string{"PUSHQ_SERVER=" + api.URL() + "/push", "PUSHQ_KEY=" + key}, "has the path /push: leave it out"},
		"a query":                 {[]string{"PUSHQ_SERVER=" + api.URL() + "?a=b", "PUSHQ_KEY=" + key}, "without what begins with ? or #"},
		"a server in quotes":      {[]string{`PUSHQ_SERVER="` + api.URL() + `"`}, "PUSHQ_SERVER"},
		"no such authority":       {[]string{"PUSHQ_SERVER=" + api.URL(), "PUSHQ_CA=/no/ca.pem"}, "PUSHQ_CA, PUSHQ_CLIENT_CERT, PUSHQ_CLIENT_KEY): the file of authorities /no/ca.pem cannot be read: no such file or directory"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, complaint := list(test.environment...)
			require.NotContains(t, complaint, key)
			if test.says == "" {
				require.Zero(t, code, complaint)
				return
			}
			require.Equal(t, 1, code)
			require.Contains(t, complaint, test.says)
		})
	}
}
