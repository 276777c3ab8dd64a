package templatesim

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func start(t *testing.T, config Config) (simulator *Simulator, base string) {
	simulator = New(config)
	base, err := simulator.Start("127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, simulator.Close()) })
	return simulator, base
}

// get asks a served simulator; the status is 0 if the connection broke.
func get(t *testing.T, address string) (status int, header http.Header, body string) {
	// A transport follows no redirect; with keep-alive it would repeat what was reset.
	request, err := http.NewRequest(http.MethodGet, address, nil)
	require.NoError(t, err)
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
	if err != nil {
		return 0, nil, ""
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, response.Header, string(content)
}

func addressOf(base, code, language string) string {
	return base + "/api/v1/templates/" + url.PathEscape(code) + "?" + url.Values{"language": {language}}.Encode()
}

// record asks without a network.
func record(simulator *Simulator, code string) *httptest.ResponseRecorder {
	recorder := httptest.NewRecorder()
	simulator.Handler().ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, addressOf("", code, "en"), nil))
	return recorder
}

func TestTemplates(t *testing.T) {
	t.Parallel()
	_, base := start(t, Config{Templates: []Template{
		completed(Template{Code: "own", Language: "sv", Content: Content{"Hej <b>&", "{{namn}}"}, Variables: []string{"namn"}}),
		completed(Template{Code: "order_shipped", Language: "en", Content: Content{Title: "Mine"}}),
	}})
	for _, test := range []struct {
		code, language string
		status         int
		body           string
	}{
		{"welcome_notification", "en", 200, `{"id":"welcome_notification.en","code":"welcome_notification","type":"push","language":"en","version":2,
			"content":{"title":"Welcome, {{name}}!","body":"Your account is ready, {{name}}. Have a look around."},"variables":["name"]}`},
		{"own", "sv", 200, `{"id":"own.sv","code":"own","type":"push","language":"sv","version":1,"content":{"title":"Hej <b>&","body":"{{namn}}"},"variables":["namn"]}`},
		{"order_shipped", "en", 200, `{"id":"order_shipped.en","code":"order_shipped","type":"push","language":"en","version":1,"content":{"title":"Mine","body":""},"variables":[]}`},
		{"own", "en", 404, `{"error":"no template \"own\" in language \"en\""}`},
		{"welcome_notification", "", 404, `{"error":"no template \"welcome_notification\" in language \"\""}`},
		{"a/b c", "en", 404, `{"error":"no template \"a/b c\" in language \"en\""}`},
	} {
		status, header, body := get(t, addressOf(base, test.code, test.language))
		require.Equal(t, test.status, status, test.code)
		require.Equal(t, "application/json", header.Get("Content-Type"), test.code)
		require.JSONEq(t, test.body, body, test.code)
	}
}

func TestTroubles(t *testing.T) {
	t.Parallel()
	simulator, base := start(t, Config{})
	for _, test := range []struct {
		code     string
		statuses []int  // of consecutive requests
		contains string // in the first answer
	}{
		{"notfound-welcome_notification", []int{404, 404}, "Not Found"},
		{"unavailable-welcome_notification", []int{503, 503, 503}, "Service Unavailable"},
		{"unavailablex2-welcome_notification", []int{503, 503, 200, 200}, "Service Unavailable"},
		{"flaky-welcome_notification", []int{503, 200, 503, 200}, "Service Unavailable"},
		{"flakyx3-welcome_notification", []int{503, 200, 503, 200, 200}, ""},
		{"429x1-welcome_notification", []int{429, 200}, "Too Many Requests"},
		{"599-welcome_notification", []int{599}, ""},
		{"302-welcome_notification", []int{302, 302}, "Found"},
		{"200-welcome_notification", []int{200}, `"code":"200-welcome_notification"`},
		{"html404x1-welcome_notification", []int{404, 200}, "<h1>404 Not Found</h1>"},
		{"html503-welcome_notification", []int{503}, "<h1>503 Service Unavailable</h1>"},
		{"html-welcome_notification", []int{200, 200}, "<h1>Sign in</h1>"},
		{"shape-", []int{200}, `"subject"`},
		{"cut-welcome_notification", []int{200}, `{"id":"cut","code":"`},
		{"other-welcome_notification", []int{200}, `"code":"another"`},
		{"unclosed-welcome_notification", []int{200}, `"body":"Hello {{name"`},
		{"unnamed-welcome_notification", []int{200}, `"body":"Hello {{ }}"`},
		{"nested-welcome_notification", []int{200}, `"body":"Hello {{{name}}}"`},
		{"undeclared-welcome_notification", []int{200}, `"body":"Hello {{undeclared}}"`},
		{"resetx1-welcome_notification", []int{0, 200}, ""},
		{"huge-nothing", []int{404}, ""},
		{"trouble-welcome_notification", []int{404}, ""},
		{"welcome_notification", []int{200}, ""},
	} {
		for place, status := range test.statuses {
			got, header, body := get(t, addressOf(base, test.code, "en"))
			require.Equal(t, status, got, "%s: request %d", test.code, place+1)
			if place == 0 {
				require.Contains(t, body, test.contains, test.code)
			}
			if status == http.StatusFound {
				require.Equal(t, "/api/v1/templates/welcome_notification?language=en", header.Get("Location"))
			}
			if status == http.StatusOK && test.code[0] != 'h' && test.code[0] != 's' && test.code[0] != 'c' {
				require.True(t, json.Valid([]byte(body)), test.code)
			}
		}
	}
	_, header, body := get(t, addressOf(base, "html-x", "en"))
	require.Equal(t, "text/html; charset=utf-8", header.Get("Content-Type"))
	require.False(t, json.Valid([]byte(body)))
	_, _, body = get(t, addressOf(base, "huge-welcome_notification", "en"))
	require.Greater(t, len(body), hugeBytes)
	require.True(t, json.Valid([]byte(body)))

	simulator.Reset()
	status, _, _ := get(t, addressOf(base, "unavailablex2-welcome_notification", "en"))
	require.Equal(t, 503, status, "trouble begins anew")
}

func TestTimes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		simulator := New(Config{Latency: 50 * time.Millisecond})
		defer func() { _ = simulator.Close() }()
		for code, took := range map[string]time.Duration{
			"welcome_notification":      50 * time.Millisecond,
			"503-x":                     50 * time.Millisecond,
			"slow-welcome_notification": slowness + 50*time.Millisecond,
		} {
			began := time.Now()
			record(simulator, code)
			require.Equal(t, took, time.Since(began), code)
		}
	})
}

func TestTroubleForEverybody(t *testing.T) {
	t.Parallel()
	simulator := New(Config{})
	t.Cleanup(func() { _ = simulator.Close() })
	require.NoError(t, simulator.SetTrouble("unavailable-"))
	require.Equal(t, 503, record(simulator, "welcome_notification").Code)
	require.Equal(t, 503, record(simulator, "order_shipped").Code)
	require.NoError(t, simulator.SetTrouble(""))
	require.Equal(t, 200, record(simulator, "welcome_notification").Code)
	for _, mistake := range []string{"unavailable", "down-", "unavailable-x", "-"} {
		require.Error(t, simulator.SetTrouble(mistake), mistake)
	}
	require.Equal(t, 200, record(simulator, "order_shipped").Code)
}

func TestLedger(t *testing.T) {
	t.Parallel()
	simulator, base := start(t, Config{LedgerSize: 2})
	get(t, addressOf(base, "order_shipped", "en"))
	get(t, addressOf(base, "order_shipped", "de"))
	get(t, addressOf(base, "503-x", "en"))
	get(t, addressOf(base, "reset-x", "en"))

	_, _, body := get(t, base+"/ledger")
	var served struct{ Requests []Request }
	require.NoError(t, json.Unmarshal([]byte(body), &served))
	require.Equal(t, simulator.Ledger(), served.Requests)
	require.Len(t, served.Requests, 2)
	for place, want := range []Request{
		{Sequence: 3, Code: "503-x", Language: "en", Status: 503},
		{Sequence: 4, Code: "reset-x", Language: "en"},
	} {
		require.WithinDuration(t, time.Now(), served.Requests[place].ArrivedAt, time.Minute)
		want.ArrivedAt = served.Requests[place].ArrivedAt
		require.Equal(t, want, served.Requests[place])
	}
	_, _, body = get(t, base+"/stats")
	require.JSONEq(t, `{"requests":4,"answers":{"0":1,"200":1,"404":1,"503":1},"inFlight":0,"peakInFlight":1}`, body)

	request, err := http.NewRequest(http.MethodDelete, base+"/ledger", nil)
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusNoContent, response.StatusCode)
	require.Empty(t, simulator.Ledger())
	require.Equal(t, Stats{Answers: map[int]int{}}, simulator.Stats())
	for _, path := range []string{"/health/live", "/health/ready"} {
		status, _, _ := get(t, base+path)
		require.Equal(t, 200, status, path)
	}
}

func TestCloseEndsHangingRequests(t *testing.T) {
	t.Parallel()
	simulator := New(Config{})
	base, err := simulator.Start("127.0.0.1:0")
	require.NoError(t, err)
	ended := make(chan int, 1)
	go func() {
		status, _, _ := get(t, addressOf(base, "hang-x", "en"))
		ended <- status
	}()
	require.Eventually(t, func() bool { return simulator.Stats().InFlight == 1 }, 2*time.Minute, 5*time.Millisecond, "the request to hang")
	require.NoError(t, simulator.Close())
	require.Zero(t, <-ended)
	require.Equal(t, Stats{Requests: 1, Answers: map[int]int{0: 1}, PeakInFlight: 1}, simulator.Stats())
	require.NoError(t, simulator.Close(), "closing twice is harmless")
	_, err = simulator.Start("127.0.0.1:0")
	require.ErrorContains(t, err, "closed")
}

func TestStartErrors(t *testing.T) {
	t.Parallel()
	simulator, base := start(t, Config{})
	_, err := simulator.Start("127.0.0.1:0")
	require.ErrorContains(t, err, "already")
	second := New(Config{})
	_, err = second.Start(strings.TrimPrefix(base, "http://"))
	require.ErrorContains(t, err, "start the template simulator")
	require.NoError(t, second.Close())
}
