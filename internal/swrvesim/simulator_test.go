package swrvesim

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	pushKey = "463B3209-6E33-4E88-AF52-CDA87C0550EC"
	okBody  = `{"code":200,"message":"OK"}`
)

func start(t *testing.T, config Config) (*Simulator, string) {
	t.Helper()
	simulator := New(config)
	base, err := simulator.Start("127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, simulator.Close()) })
	return simulator, base
}

func newClient(t *testing.T) *http.Client {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 100}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func form(user string) url.Values {
	return url.Values{"push_key": {pushKey}, "user": {user}, "message": {"Hello"}}
}

// post sends one push and returns its answer and body.
func post(t *testing.T, client *http.Client, base string, fields url.Values) (*http.Response, string) {
	t.Helper()
	response, err := client.PostForm(base+"/push", fields)
	require.NoError(t, err)
	return response, read(t, response)
}

func read(t *testing.T, response *http.Response) string {
	t.Helper()
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return string(body)
}

// record serves one push without a network.
func record(simulator *Simulator, user string) *httptest.ResponseRecorder {
	recorder := httptest.NewRecorder()
	simulator.Handler().ServeHTTP(recorder, newRequest(user))
	return recorder
}

func newRequest(user string) *http.Request {
	request := httptest.NewRequest(http.MethodPost, "/push", strings.NewReader(form(user).Encode()))
	request.Header.Set("Content-Type", formMediaType)
	return request
}

func eventually(t *testing.T, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, 2*time.Minute, 2*time.Millisecond)
}

func TestPushIsDelivered(t *testing.T) {
	t.Parallel()
	simulator, base := start(t, Config{})
	response, body := post(t, newClient(t), base, form("ann"))
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.Equal(t, "application/json", response.Header.Get("Content-Type"))
	require.Equal(t, okBody, body)

	stats := simulator.Stats()
	require.Equal(t, 1, stats.Requests)
	require.Equal(t, 1, stats.Delivered)
	require.Equal(t, map[int]int{200: 1}, stats.Answers)
	require.Equal(t, 1, stats.LargestSecond)
	require.Equal(t, 1, stats.PeakInFlight)
	require.Zero(t, stats.InFlight)
	require.Equal(t, 1, stats.Connections)
}

func TestFormRules(t *testing.T) {
	t.Parallel()
	_, base := start(t, Config{})
	client := newClient(t)
	good := form("ann").Encode()
	for _, test := range []struct {
		name, method, query, contentType, body string
		status                                 int
		answer                                 string
	}{
		{"form", "POST", "", formMediaType, good, 200, okBody},
		{"form with charset", "POST", "", formMediaType + "; charset=UTF-8", good, 200, okBody},
		{"query only", "POST", "?" + good, "", "", 200, okBody},
		{"query and form", "POST", "?push_key=k", formMediaType, "user=ann", 200, okBody},
		{"JSON", "POST", "", "application/json", `{"push_key":"k","user":"ann"}`, 400, `{"code":400,"message":"Content-Type must be application/x-www-form-urlencoded"}`},
		{"JSON with a good query", "POST", "?" + good, "application/json", `{}`, 400, `{"code":400,"message":"Content-Type must be application/x-www-form-urlencoded"}`},
		{"unreadable media type", "POST", "?" + good, "/", "", 400, `{"code":400,"message":"Content-Type must be application/x-www-form-urlencoded"}`},
		{"no push_key", "POST", "", formMediaType, "user=ann", 400, `{"code":400,"message":"Missing push_key"}`},
		{"empty push_key", "POST", "", formMediaType, "push_key=&user=ann", 400, `{"code":400,"message":"Missing push_key"}`},
		{"no user", "POST", "", formMediaType, "push_key=k", 400, `{"code":400,"message":"Missing user"}`},
		{"bad escape", "POST", "", formMediaType, good + "&x=%zz", 400, `{"code":400,"message":"Malformed form"}`},
		{"bad UTF-8", "POST", "", formMediaType, "push_key=k&user=ann&message=%ff", 400, `{"code":400,"message":"Malformed UTF-8"}`},
		{"too large", "POST", "", formMediaType, good + "&x=" + strings.Repeat("x", maxBodyBytes), 413, `{"code":413,"message":"Request Entity Too Large"}`},
		{"GET", "GET", "?" + good, "", "", 405, `{"code":405,"message":"Method Not Allowed"}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			request, err := http.NewRequest(test.method, base+"/push"+test.query, strings.NewReader(test.body))
			require.NoError(t, err)
			if test.contentType != "" {
				request.Header.Set("Content-Type", test.contentType)
			}
			response, err := client.Do(request)
			require.NoError(t, err)
			require.Equal(t, test.answer, read(t, response))
			require.Equal(t, test.status, response.StatusCode)
		})
	}

	response, err := client.Get(base + "/elsewhere")
	require.NoError(t, err)
	require.Equal(t, `{"code":404,"message":"Not Found"}`, read(t, response))
	require.Equal(t, http.StatusNotFound, response.StatusCode)
}

func TestUnknownPushKeyIsForbidden(t *testing.T) {
	t.Parallel()
	simulator, base := start(t, Config{Keys: []string{"other", pushKey}})
	client := newClient(t)
	response, _ := post(t, client, base, form("ann"))
	require.Equal(t, http.StatusOK, response.StatusCode)

	unknown := form("ann")
	unknown.Set("push_key", strings.ToLower(pushKey))
	response, body := post(t, client, base, unknown)
	require.Equal(t, http.StatusForbidden, response.StatusCode)
	require.Equal(t, `{"code":403,"message":"Unknown push_key"}`, body)
	require.Equal(t, 1, simulator.Stats().Delivered)
}

func TestLedgerKeepsFieldsAsSent(t *testing.T) {
	t.Parallel()
	simulator, base := start(t, Config{})
	client := newClient(t)
	message := "<b>&\"' + = % \u2028 Привет 👩‍👩‍👧 e\u0301\r\n\t\x00"
	fields := url.Values{
		"push_key": {pushKey}, "user": {"ann", "twice"}, "message": {message}, "test": {"1"},
		"custom": {"a=1", "b=2"},
	}
	before := time.Now().Truncate(time.Microsecond)
	post(t, client, base, fields)
	post(t, client, base, form("403-bob"))

	response, err := client.Get(base + "/ledger")
	require.NoError(t, err)
	text := read(t, response)
	var served struct {
		Dropped  int
		Requests []Request
	}
	require.NoError(t, json.Unmarshal([]byte(text), &served))
	require.Equal(t, simulator.Ledger(), served.Requests)
	require.Zero(t, served.Dropped)
	require.Len(t, served.Requests, 2)

	first := served.Requests[0]
	require.Equal(t, message, first.Message)
	require.Equal(t, Request{
		Sequence: 1, ArrivedAt: first.ArrivedAt, MonotonicMicros: first.MonotonicMicros, InFlight: 1,
		PushKey: pushKey, User: "ann", Message: message, Test: "1",
		Other:  url.Values{"custom": {"a=1", "b=2"}, "user": {"twice"}},
		Status: 200, Delivered: true,
	}, first)
	require.Contains(t, text, "<b>&", "readable, not escaped for HTML")
	require.Regexp(t, `"arrivedAt":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z"`, text)
	require.False(t, first.ArrivedAt.Before(before))
	require.False(t, first.ArrivedAt.After(time.Now()))

	second := served.Requests[1]
	require.Equal(t, 2, second.Sequence)
	require.Equal(t, "403-bob", second.User)
	require.Equal(t, http.StatusForbidden, second.Status)
	require.False(t, second.Delivered)
	require.Greater(t, second.MonotonicMicros, first.MonotonicMicros)
}

func TestResetBeginsANewRound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // all within a second
		simulator := New(Config{Rate: 3})
		for _, user := range []string{"ann", "500x1-bob", "cid", "too-fast"} {
			record(simulator, user)
		}
		require.Equal(t, 1, simulator.Stats().RateLimited)

		recorder := httptest.NewRecorder()
		simulator.Handler().ServeHTTP(recorder, httptest.NewRequest(http.MethodDelete, "/ledger", nil))
		require.Empty(t, recorder.Body.String())
		require.Equal(t, http.StatusNoContent, recorder.Code)

		stats := simulator.Stats()
		stats.WorstLagMillis = 0
		require.Equal(t, Stats{Answers: map[int]int{}}, stats)
		require.Empty(t, simulator.Ledger())

		require.Equal(t, http.StatusInternalServerError, record(simulator, "500x1-bob").Code, "scripts begin anew")
		require.Equal(t, 1, simulator.Ledger()[0].Sequence)
		require.Equal(t, 1, simulator.Stats().LargestSecond)
	})
}

func TestResetWithRequestsInFlight(t *testing.T) {
	t.Parallel()
	simulator, base := start(t, Config{})
	client := newClient(t)
	ctx, cancel := context.WithCancel(t.Context())
	var requests sync.WaitGroup
	requests.Go(func() { hang(ctx, client, base, "hang-ann") })
	eventually(t, func() bool { return simulator.Stats().InFlight == 1 })

	simulator.Reset()
	require.Equal(t, 1, simulator.Stats().PeakInFlight)
	cancel()
	requests.Wait()
	eventually(t, func() bool { return simulator.Stats().InFlight == 0 })
	require.Empty(t, simulator.Stats().Answers, "the old round's request does not appear in the new one")
	require.Empty(t, simulator.Ledger())
}

func TestStatsOverHTTP(t *testing.T) {
	t.Parallel()
	simulator, base := start(t, Config{})
	client := newClient(t)
	post(t, client, base, form("ann"))
	eventually(t, func() bool { return simulator.Stats().WorstLagMillis > 0 })
	response, err := client.Get(base + "/stats")
	require.NoError(t, err)
	var served map[string]any
	require.NoError(t, json.Unmarshal([]byte(read(t, response)), &served))
	require.Positive(t, served["worstLagMillis"])
	delete(served, "worstLagMillis")
	require.Equal(t, map[string]any{
		"requests": 1.0, "delivered": 1.0, "answers": map[string]any{"200": 1.0}, "rateLimited": 0.0,
		"largestSecond": 1.0, "inFlight": 0.0, "peakInFlight": 1.0, "connections": 1.0, "ledgerDropped": 0.0,
	}, served)
}

func TestRateCountsAnySlidingSecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		simulator := New(Config{Rate: 3})
		for _, step := range []struct {
			after  time.Duration
			status int
		}{
			{0, 200}, {400 * time.Millisecond, 200}, {500 * time.Millisecond, 200},
			{99 * time.Millisecond, 429},   // 0.999 s: the fourth
			{time.Millisecond, 429},        // 1.000 s: the first has left, but the refused one counts
			{400 * time.Millisecond, 429},  // 1.400 s: 0.9, 0.999 and 1.0 are still in it
			{599 * time.Millisecond, 200},  // 1.999 s: only 1.0 and 1.4 are left
			{1000 * time.Millisecond, 200}, // 2.999 s: nothing is left
		} {
			time.Sleep(step.after)
			recorder := record(simulator, "ann")
			require.Equal(t, step.status, recorder.Code, "at %v", time.Since(simulator.began))
			if step.status == 429 {
				require.Equal(t, `{"code":429,"message":"Rate Limit Exceeded"}`, recorder.Body.String())
			}
		}
		stats := simulator.Stats()
		require.Equal(t, 4, stats.LargestSecond)
		require.Equal(t, 3, stats.RateLimited)
		require.Equal(t, 5, stats.Delivered)
	})
}

func TestRateComesBeforeEverythingElse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		simulator := New(Config{Rate: 1, Latency: FixedLatency(time.Second)})
		require.Equal(t, 200, record(simulator, "ann").Code)
		require.Equal(t, 500, record(simulator, "500x1-bob").Code, "a second later")
		began := time.Now()
		for range 2 {
			go record(simulator, "500x1-cid")
			synctest.Wait()
		}
		require.Equal(t, began, time.Now())
		require.Equal(t, 429, simulator.Ledger()[3].Status, "refused at once")
		time.Sleep(2 * time.Second)
		require.Equal(t, 500, simulator.Ledger()[2].Status)
		require.Equal(t, 200, record(simulator, "500x1-cid").Code, "a refusal uses up no scripted outcome")
	})
}

func TestLatencyDelaysAnswersButNotRefusals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		simulator := New(Config{Latency: FixedLatency(50 * time.Millisecond), Keys: []string{pushKey}})
		for user, latency := range map[string]time.Duration{
			"ann": 50 * time.Millisecond, "503-ann": 50 * time.Millisecond, "": 0,
		} {
			began := time.Now()
			record(simulator, user)
			require.Equal(t, latency, time.Since(began), user)
		}
	})
}

func TestPeakConcurrency(t *testing.T) {
	t.Parallel()
	const callers = 40
	simulator, base := start(t, Config{})
	client := newClient(t)
	ctx, cancel := context.WithCancel(t.Context())
	var requests sync.WaitGroup
	for i := range callers {
		requests.Go(func() { hang(ctx, client, base, fmt.Sprintf("hang-%d", i)) })
	}
	eventually(t, func() bool { return simulator.Stats().InFlight == callers })
	cancel()
	requests.Wait()
	eventually(t, func() bool { return simulator.Stats().InFlight == 0 })
	post(t, client, base, form("later"))

	stats := simulator.Stats()
	require.Equal(t, callers, stats.PeakInFlight)
	require.Equal(t, callers+1, stats.Connections)
	require.Equal(t, map[int]int{0: callers, 200: 1}, stats.Answers)
	for i, request := range simulator.Ledger()[:callers] {
		require.Equal(t, i+1, request.InFlight)
	}
}

// auditor looks at the books at the moment when the answer goes out.
type auditor struct {
	*httptest.ResponseRecorder
	simulator *Simulator
	stats     Stats
	ledger    []Request
	deadlines []time.Time
}

func (a *auditor) WriteHeader(status int) {
	a.stats, a.ledger = a.simulator.Stats(), a.simulator.Ledger()
	a.ResponseRecorder.WriteHeader(status)
}

func (a *auditor) SetReadDeadline(deadline time.Time) error {
	a.deadlines = append(a.deadlines, deadline)
	return nil
}

func TestBooksAreClosedBeforeTheAnswer(t *testing.T) {
	t.Parallel()
	simulator := New(Config{})
	audit := &auditor{ResponseRecorder: httptest.NewRecorder(), simulator: simulator}
	simulator.Handler().ServeHTTP(audit, newRequest("503-ann"))
	require.Zero(t, audit.stats.InFlight, "a caller that sends its next push at once must not raise the peak")
	require.Equal(t, map[int]int{503: 1}, audit.stats.Answers)
	require.Equal(t, 503, audit.ledger[0].Status)
}

func TestOnlyTheBodyHasAReadDeadline(t *testing.T) {
	t.Parallel()
	simulator := New(Config{})
	audit := &auditor{ResponseRecorder: httptest.NewRecorder(), simulator: simulator}
	simulator.Handler().ServeHTTP(audit, newRequest("ann"))
	require.Len(t, audit.deadlines, 2)
	require.WithinDuration(t, time.Now().Add(bodyTimeout), audit.deadlines[0], bodyTimeout/2)
	require.Zero(t, audit.deadlines[1], "it would end a hanging request")
}

func TestCloseEndsHangingRequests(t *testing.T) {
	t.Parallel()
	simulator := New(Config{Latency: FixedLatency(time.Hour)})
	base, err := simulator.Start("127.0.0.1:0")
	require.NoError(t, err)
	client := newClient(t)
	ended := make(chan error, 2)
	for _, user := range []string{"hang-ann", "slow"} {
		go func() {
			response, err := client.PostForm(base+"/push", form(user))
			if err == nil {
				response.Body.Close()
			}
			ended <- err
		}()
	}
	eventually(t, func() bool { return simulator.Stats().InFlight == 2 })
	require.NoError(t, simulator.Close())
	require.Zero(t, simulator.Stats().InFlight, "all handlers have ended")
	require.Error(t, <-ended)
	require.Error(t, <-ended)
	require.NoError(t, simulator.Close(), "closing twice is harmless")

	_, err = net.Dial("tcp", strings.TrimPrefix(base, "http://"))
	require.Error(t, err, "nobody listens any more")
	_, err = simulator.Start("127.0.0.1:0")
	require.ErrorContains(t, err, "closed")
}

func TestCloseWithoutStart(t *testing.T) {
	t.Parallel()
	simulator := New(Config{})
	server := httptest.NewServer(simulator.Handler())
	defer server.Close()
	client := newClient(t)
	var hanging sync.WaitGroup
	hanging.Go(func() { hang(t.Context(), client, server.URL, "hang-ann") })
	eventually(t, func() bool { return simulator.Stats().InFlight == 1 })
	require.NoError(t, simulator.Close())
	require.Zero(t, simulator.Stats().InFlight)
	hanging.Wait()

	_, err := client.PostForm(server.URL+"/push", form("ann"))
	require.Error(t, err)
	require.Equal(t, 1, simulator.Stats().Requests, "nothing is taken after Close")
}

func TestStartErrors(t *testing.T) {
	t.Parallel()
	simulator, base := start(t, Config{})
	_, err := simulator.Start("127.0.0.1:0")
	require.ErrorContains(t, err, "already")

	second := New(Config{})
	_, err = second.Start(strings.TrimPrefix(base, "http://"))
	require.ErrorContains(t, err, "start the Swrve simulator")
	_, err = second.Start("127.0.0.1:0")
	require.NoError(t, err, "another address may be tried")
	require.NoError(t, second.Close())
}

// hang sends a push and waits until the answer, the end of ctx, or a broken connection.
func hang(ctx context.Context, client *http.Client, base, user string) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/push", strings.NewReader(form(user).Encode()))
	if err != nil {
		return
	}
	request.Header.Set("Content-Type", formMediaType)
	if response, err := client.Do(request); err == nil {
		response.Body.Close()
	}
}
