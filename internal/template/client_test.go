package template

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/breaker"
	"pushq/internal/templatesim"
	"pushq/internal/testenv"
)

func startSimulator(t *testing.T) (simulator *templatesim.Simulator, url string) {
	simulator = templatesim.New(templatesim.Config{})
	url, err := simulator.Start("127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, simulator.Close()) })
	return simulator, url
}

func newClient(options Options) *Client {
	if options.Timeout == 0 {
		options.Timeout = 10 * time.Second
	}
	options.Tries, options.Backoff = 3, time.Millisecond
	return NewClient(options)
}

// serve answers every request with the handler.
func serve(t *testing.T, handler http.HandlerFunc) (url string) {
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

func TestRequest(t *testing.T) {
	t.Parallel()
	var got *http.Request
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = r
		_, _ = io.WriteString(w, `{"code":"a b/ä?","type":"push","content":{"body":"Hi <b>&"}}`)
	})
	for _, base := range []string{url, url + "/"} {
		template, err := newClient(Options{URL: base}).Get(t.Context(), "a b/ä?", "pt-BR&x")
		require.NoError(t, err)
		require.Equal(t, Template{Code: "a b/ä?", Content: Content{Body: "Hi <b>&"}}, template)
		require.Equal(t, "GET /api/v1/templates/a%20b%2F%C3%A4%3F?language=pt-BR%26x", got.Method+" "+got.RequestURI)
		require.Equal(t, "application/json", got.Header.Get("Accept"))
		require.Equal(t, "pushq", got.Header.Get("User-Agent"))
	}
	_, err := newClient(Options{URL: strings.Replace(url, "//", "//user:secret@", 1) + "/below"}).Get(t.Context(), "a b/ä?", "en")
	require.NoError(t, err)
	require.Equal(t, "/below/api/v1/templates/a%20b%2F%C3%A4%3F", got.URL.EscapedPath())
	user, password, _ := got.BasicAuth()
	require.Equal(t, "user secret", user+" "+password)
}

func TestAnswersThatAreFinal(t *testing.T) {
	t.Parallel()
	simulator, url := startSimulator(t)
	client := newClient(Options{URL: url})
	for code, test := range map[string]struct {
		gone    bool
		problem string
	}{
		"nothing":                       {true, "the template service has no template nothing in language en"},
		"notfound-welcome_notification": {true, "the template service has no template notfound-welcome_notification in language en"},
		"410-welcome_notification":      {true, "the template service has no template 410-welcome_notification in language en"},
		"other-welcome_notification":    {false, `the template service answered what is not a template: its code is "another", not "other-welcome_notification"`},
		"400-welcome_notification":      {false, "the template service answered 400 Bad Request"},
		"422-welcome_notification":      {false, "the template service answered 422 Unprocessable Entity"},
	} {
		simulator.Reset()
		template, err := client.Get(t.Context(), code, "en")
		var unusable *Unusable
		require.ErrorAs(t, err, &unusable, code)
		require.Equal(t, test.gone, unusable.Gone, code)
		require.ErrorContains(t, err, test.problem)
		require.Less(t, len(err.Error()), 300)
		require.Equal(t, Template{}, template)
		require.Equal(t, 1, simulator.Stats().Requests, code)
	}
	for _, code := range []string{".", ".."} {
		simulator.Reset()
		_, err := client.Get(t.Context(), code, "en")
		require.ErrorContains(t, err, "has no template "+code)
		require.Zero(t, simulator.Stats().Requests, "it would be another path")
	}
}

// A refusal that is not in the service's words says nothing of the template, and nothing
// good of the service.
func TestOnlyTheServiceItselfHasNoTemplate(t *testing.T) {
	t.Parallel()
	for _, status := range []int{404, 410, 400} {
		not := fmt.Sprintf("the template service is not available: the answer is not the template service's, see template.url: %d ", status)
		for _, test := range []struct {
			body string
			cut  bool
			not  string // "" if it is the service's
		}{
			{`{"error":"no such template"}`, false, ""},
			{`{"code":404,"error":{"message":"no such template"}}`, false, ""},
			{"\ufeff{\"error\":\"no such template\"}\n", false, ""},
			{`{"error":"no such template"}`, true, ""}, // only blanks are missing
			{"", false, "without a body"},
			{" \r\n", false, "without a body"},
			{"null", false, "null"},
			{"{}", false, "{}"},
			{`{"error":null}`, false, `{"error":null}`},
			{`{"message":"no Route matched with those values"}`, false, `{"message":"no Route matched with those values"}`},
			{"<!DOCTYPE html><h1>404</h1>", false, "with an HTML page"},
			{"404 page not found\n", false, "404 page not found"},
			{"default backend - 404", false, "default backend - 404"},
			{`{"error":`, true, "with a body that broke off or is too long"},
			{"", true, "with a body that broke off or is too long"},
			{`{"error":"` + strings.Repeat("x", maxAnswer) + `"}`, false, "with a body that broke off or is too long"},
		} {
			url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				length := len(test.body)
				if test.cut {
					length++
				}
				w.Header().Set("Content-Length", strconv.Itoa(length))
				w.WriteHeader(status)
				_, _ = io.WriteString(w, test.body)
			})
			_, err := newClient(Options{URL: url}).Get(t.Context(), "a", "en")
			if test.not == "" {
				var unusable *Unusable
				require.ErrorAs(t, err, &unusable, test.body)
				require.Equal(t, status != 400, unusable.Gone, "%d %.80s", status, test.body)
				require.Equal(t, breaker.Good, resultOf(err), "%d %.80s", status, test.body)
				continue
			}
			require.EqualError(t, err, not+test.not)
			var unavailable *Unavailable
			require.ErrorAs(t, err, &unavailable, test.body)
			require.Equal(t, !strings.Contains(test.not, "broke off"), unavailable.Alarm, "%d %.80s", status, test.body)
			require.Equal(t, breaker.Bad, resultOf(err), "%d %.80s", status, test.body)
		}
	}
}

func TestA404OfSomebodyElseKeepsTheTemplate(t *testing.T) {
	t.Parallel()
	var answer atomic.Pointer[http.HandlerFunc]
	answers := func(handler http.HandlerFunc) { answer.Store(&handler) }
	url := serve(t, func(w http.ResponseWriter, r *http.Request) { (*answer.Load())(w, r) })
	cache := NewCache(newClient(Options{URL: url}), 0, time.Hour)

	answers(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"code":"welcome","type":"push","content":{"title":"Hi"}}`)
	})
	require.Equal(t, "Hi", title(t, cache))
	answers(http.NotFound) // in plain text
	require.Equal(t, "Hi", title(t, cache))
	_, err := cache.Get(t.Context(), "another", "en")
	require.ErrorContains(t, err, "404 page not found")
	answers(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) }) // a load balancer's
	testenv.Eventually(t, 10*time.Second, "the source to be asked again", func() bool {
		require.Equal(t, "Hi", title(t, cache))
		_, err := cache.Get(t.Context(), "another", "en")
		return strings.Contains(err.Error(), "404 without a body")
	})

	answers(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"error":"no such template"}`)
	})
	testenv.Eventually(t, 10*time.Second, "the template to be gone", func() bool {
		_, err := cache.Get(t.Context(), "welcome", "en")
		var unusable *Unusable
		return errors.As(err, &unusable) && unusable.Gone
	})
}

func TestWhatMayPassIsTriedAgain(t *testing.T) {
	t.Parallel()
	simulator, url := startSimulator(t)
	patient := newClient(Options{URL: url, Timeout: time.Minute})
	impatient := newClient(Options{URL: url, Timeout: 2 * time.Second}) // less than the slow one takes
	waiting := newClient(Options{URL: url, Timeout: 5 * time.Second})
	clientFor := func(code string) *Client {
		switch {
		case strings.HasPrefix(code, "slow"):
			return impatient
		case strings.HasPrefix(code, "hang"):
			return waiting
		default:
			return patient
		}
	}
	for code, requests := range map[string]int{
		"welcome_notification":               1,
		"flaky-welcome_notification":         2,
		"unavailablex2-welcome_notification": 3,
		"500x2-welcome_notification":         3,
		"502x1-welcome_notification":         2,
		"504x1-welcome_notification":         2,
		"599x1-welcome_notification":         2,
		"429x2-welcome_notification":         3,
		"408x1-welcome_notification":         2,
		"425x1-welcome_notification":         2,
		"resetx2-welcome_notification":       3,
		"hangx1-welcome_notification":        2,
		"htmlx2-welcome_notification":        3,
		"shapex1-welcome_notification":       2,
		"cutx1-welcome_notification":         2,
		"html404x1-welcome_notification":     2,
		"html400x1-welcome_notification":     2,
	} {
		simulator.Reset()
		template, err := clientFor(code).Get(t.Context(), code, "en")
		require.NoError(t, err, code)
		require.Equal(t, code, template.Code)
		require.Equal(t, "Welcome, {{name}}!", template.Content.Title)
		require.Equal(t, requests, simulator.Stats().Requests, code)
	}
	const foreign = "the template service is not available: the answer is not the template service's, see template.url: "
	for code, problem := range map[string]string{
		"html-welcome_notification":        foreign + "200 with an HTML page",
		"shape-welcome_notification":       foreign + `200 {"status":"success",`,
		"cut-welcome_notification":         foreign + `200 {"id":"cut","code":"`,
		"huge-welcome_notification":        foreign + "200 with a body that broke off or is too long",
		"html404-welcome_notification":     foreign + "404 with an HTML page",
		"204-welcome_notification":         "the template service is not available: it answered 204 No Content",
		"unavailable-welcome_notification": "the template service is not available: 503 Service Unavailable",
		"429-welcome_notification":         "the template service is not available: 429 Too Many Requests",
		"reset-welcome_notification":       "reset",
		"slow-welcome_notification":        "Client.Timeout",
	} {
		simulator.Reset()
		_, err := clientFor(code).Get(t.Context(), code, "en")
		var unavailable *Unavailable
		require.ErrorAs(t, err, &unavailable, code)
		require.ErrorContains(t, err, problem)
		require.Equal(t, 3, simulator.Stats().Requests, code)
	}
}

func TestErrorsDoNotTellTheAddress(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"http://user:secret@" + testenv.FreeAddress(t),
		"http://user:secret@host:port/\x7f",
		"secret://user:secret@127.0.0.1",
	} {
		_, err := newClient(Options{URL: url}).Get(t.Context(), "welcome_notification", "en")
		require.Error(t, err)
		require.NotContains(t, strings.ReplaceAll(err.Error(), `"secret"`, ""), "secret")
	}
}

// JSON tells where it ends: blanks that are missing or too many behind it do not matter.
func TestAnswersOfAnyLength(t *testing.T) {
	t.Parallel()
	const answer = `{"code":"a","type":"push","content":{"title":"Hi"}}`
	for _, test := range []struct {
		length, sent int
		good         bool
	}{
		{maxAnswer, maxAnswer, true},
		{maxAnswer + 1, maxAnswer + 1, true},
		{maxAnswer, len(answer), true},
		{maxAnswer, len(answer) - 1, false},
	} {
		url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			text := answer + strings.Repeat(" ", test.length-len(answer))
			w.Header().Set("Content-Length", fmt.Sprint(len(text)))
			_, _ = io.WriteString(w, text[:test.sent])
		})
		_, err := newClient(Options{URL: url}).Get(t.Context(), "a", "en")
		if test.good {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, "the template service is not available: the answer is not the template service's, see template.url: 200 with a body that broke off")
		}
	}
}

func TestAnAnswerWithoutEndIsLeft(t *testing.T) {
	t.Parallel()
	written := make(chan int, 3) // tries
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		total := 0
		for block := make([]byte, 64<<10); total < 100<<20; {
			count, err := w.Write(block)
			total += count
			if err != nil {
				break
			}
		}
		written <- total
	})
	_, err := newClient(Options{URL: url}).Get(t.Context(), "a", "en")
	require.ErrorContains(t, err, "200 with a body that broke off or is too long")
	require.Less(t, <-written, 20<<20, "the rest is what the kernel's buffers take")
}

func TestACallerMayGoAway(t *testing.T) {
	t.Parallel()
	simulator, url := startSimulator(t)
	for _, code := range []string{"hang-x", "unavailable-x"} {
		client := newClient(Options{URL: url})
		client.Backoff = time.Hour
		simulator.Reset()
		ctx, leave := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := client.Get(ctx, code, "en")
			ended <- err
		}()
		testenv.Eventually(t, 10*time.Second, "the request", func() bool { return simulator.Stats().Requests == 1 })
		leave()
		require.ErrorIs(t, <-ended, context.Canceled, code)
		require.Equal(t, 1, simulator.Stats().Requests)

		// A caller whose time is over has to say something about the service.
		ctx, leave = context.WithTimeout(t.Context(), 300*time.Millisecond)
		_, err := client.Get(ctx, code, "en")
		leave()
		var unavailable *Unavailable
		require.ErrorAs(t, err, &unavailable, code)
	}
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	client := NewClient(Options{Backoff: 200 * time.Millisecond})
	for try, least := range map[int]time.Duration{
		1: 200 * time.Millisecond, 2: 400 * time.Millisecond, 3: 800 * time.Millisecond, 5: 3200 * time.Millisecond,
		6: maxBackoff, 10: maxBackoff, 1000: maxBackoff,
	} {
		different := map[time.Duration]bool{}
		for range 100 {
			backoff := client.backoff(try)
			require.GreaterOrEqual(t, backoff, least, try)
			require.LessOrEqual(t, backoff, least*3/2, try)
			different[backoff] = true
		}
		require.Greater(t, len(different), 10, try)
	}
	require.Zero(t, NewClient(Options{}).backoff(3))
}

// openFor is long enough for a test to see the breaker open.
const openFor = 2 * time.Second

func newBreaker(t *testing.T, redis *testenv.Redis) *breaker.Breaker {
	return breaker.New(redis.Client(t), breaker.Options{
		Keys:     breaker.Keys{Hash: "pushq:{fcm}:breaker:templates", Failing: "pushq:{fcm}:breaker:templates:failing", StateCopy: "state", FailuresCopy: "failures"},
		Service:  "template_service",
		Failures: 5, OpenFor: openFor, Successes: 2, Forget: time.Minute,
		Log: slog.New(slog.DiscardHandler),
	})
}

func TestBreaker(t *testing.T) {
	t.Parallel()
	simulator, url := startSimulator(t)
	client := newClient(Options{URL: url, Breaker: newBreaker(t, testenv.StartRedis(t))})
	state := func() string {
		state, failures, err := client.Breaker.Read(t.Context())
		require.NoError(t, err)
		return fmt.Sprint(state, " ", failures)
	}

	// What is not the service's failure.
	for _, code := range []string{"notfound-x", "other-welcome_notification", "400-x", "429-x"} {
		for range 3 {
			_, err := client.Get(t.Context(), code, "en")
			require.Error(t, err)
		}
	}
	ctx, leave := context.WithCancel(t.Context())
	go func() {
		for before := simulator.Stats().Requests; simulator.Stats().Requests == before; {
			time.Sleep(time.Millisecond)
		}
		leave()
	}()
	_, err := client.Get(ctx, "hang-x", "en")
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, "closed 0", state())

	// Three failures, then two, and no more.
	require.NoError(t, simulator.SetTrouble("unavailable-"))
	simulator.Reset()
	_, err = client.Get(t.Context(), "welcome_notification", "en")
	var unavailable *Unavailable
	require.ErrorAs(t, err, &unavailable)
	require.Equal(t, "closed 3", state())
	var open *breaker.OpenError
	for range 3 {
		_, err = client.Get(t.Context(), "welcome_notification", "en")
		require.ErrorAs(t, err, &open)
	}
	require.Equal(t, "open 5", state())
	require.Equal(t, 5, simulator.Stats().Requests)
	require.Positive(t, open.After)

	// A probe that fails is no failure of who makes it.
	client.Tries = 1
	before := simulator.Stats().Requests
	testenv.Eventually(t, 10*openFor, "a probe", func() bool {
		_, err = client.Get(t.Context(), "welcome_notification", "en")
		require.True(t, waits(err), "%v", err) // until its turn it is told to let others come first
		return simulator.Stats().Requests > before
	})
	require.ErrorAs(t, err, &open)

	require.NoError(t, simulator.SetTrouble(""))
	testenv.EventuallyNoError(t, 10*openFor, func() error {
		_, err := client.Get(t.Context(), "welcome_notification", "en")
		return err
	})
	_, err = client.Get(t.Context(), "welcome_notification", "en")
	require.NoError(t, err)
	require.Equal(t, "closed 0", state())
}

// A service in whose place another one answers is asked a few times, and then others wait. Each request counts once for the breaker, however many
// wait for what it brings.
func TestAnswersThatAreNotAboutTheTemplateCountForTheBreaker(t *testing.T) {
	t.Parallel()
	redis := testenv.StartRedis(t)
	for _, trouble := range []string{"html", "shape", "cut", "html404", "huge"} {
		simulator, url := startSimulator(t)
		client := newClient(Options{URL: url, Breaker: newBreaker(t, redis)})
		require.NoError(t, redis.Client(t).FlushAll(t.Context()).Err())
		cache := NewCache(client, time.Minute, time.Minute)
		const waiting = 300
		problems := make(chan error, waiting)
		for range waiting {
			go func() {
				_, err := cache.Get(t.Context(), trouble+"-welcome_notification", "en")
				problems <- err
			}()
		}
		for range waiting {
			err := <-problems
			var unavailable *Unavailable
			var open *breaker.OpenError
			require.True(t, errors.As(err, &unavailable) || errors.As(err, &open), "%s: %v", trouble, err)
		}
		state, failures, err := client.Breaker.Read(t.Context())
		require.NoError(t, err)
		require.Equal(t, simulator.Stats().Requests, failures, trouble)
		require.Equal(t, failures >= 5, state == breaker.Open, trouble)

		var open *breaker.OpenError
		for range 2 {
			_, err = cache.Get(t.Context(), trouble+"-password_reset", "en")
			require.Error(t, err)
		}
		_, err = cache.Get(t.Context(), "welcome_notification", "en")
		require.ErrorAs(t, err, &open, trouble)
		require.Equal(t, 5, simulator.Stats().Requests, trouble)
	}
}

// A service that takes no questions at all is asked a few times, and then others wait.
func TestARefusalOfPushqItselfIsNotTheTemplates(t *testing.T) {
	t.Parallel()
	redis := testenv.StartRedis(t)
	for _, status := range []int{401, 403, 407, 302} {
		simulator, url := startSimulator(t)
		client := newClient(Options{URL: url, Breaker: newBreaker(t, redis)})
		require.NoError(t, redis.Client(t).FlushAll(t.Context()).Err())
		cache := NewCache(client, time.Minute, time.Minute)
		bad := fmt.Sprintf("%d-x", status)
		answered := fmt.Sprintf("it answered %d %s", status, http.StatusText(status))
		for range client.Breaker.Failures {
			_, err := client.Get(t.Context(), bad, "en")
			var refusal *Refusal
			require.ErrorAs(t, err, &refusal, status)
			require.EqualError(t, err, "the template service refuses pushq itself: "+answered)
		}
		_, err := cache.Get(t.Context(), "welcome_notification", "en")
		var open *breaker.OpenError
		require.ErrorAs(t, err, &open, status)
		require.Equal(t, client.Breaker.Failures, simulator.Stats().Requests, status)

		// It takes others: that template is what it refuses.
		testenv.EventuallyNoError(t, 10*openFor, func() error {
			_, err := cache.Get(t.Context(), "welcome_notification", "en")
			return err
		})
		client.Tries = 1
		_, err = client.Get(t.Context(), bad, "en")
		var unavailable *Unavailable
		require.ErrorAs(t, err, &unavailable, status)
		require.EqualError(t, err, "the template service is not available: "+answered)
	}
}

// What fails for one template while others are there is about that one: whoever needs it
// pays for the attempt, and nobody else waits.
func TestATemplateThatFailsAlone(t *testing.T) {
	t.Parallel()
	simulator, url := startSimulator(t)
	client := newClient(Options{URL: url, Breaker: newBreaker(t, testenv.StartRedis(t))})
	client.Tries = 1
	var unavailable *Unavailable
	for number := range 5 {
		_, err := client.Get(t.Context(), fmt.Sprintf("500-bad%d", number), "en")
		require.ErrorAs(t, err, &unavailable)
	}
	var open *breaker.OpenError
	_, err := client.Get(t.Context(), "500-bad5", "en")
	require.ErrorAs(t, err, &open)
	testenv.EventuallyNoError(t, 10*openFor, func() error {
		_, err := client.Get(t.Context(), "welcome_notification", "en")
		return err
	})
	_, err = client.Get(t.Context(), "welcome_notification", "en")
	require.NoError(t, err, "the second good one closes it")
	client.Tries = 3
	before := simulator.Stats().Requests
	for number := range 5 {
		for range 3 {
			_, err = client.Get(t.Context(), fmt.Sprintf("500-bad%d", number), "en")
			require.ErrorAs(t, err, &unavailable)
			_, err = client.Get(t.Context(), "welcome_notification", "en")
			require.NoError(t, err)
		}
	}
	require.Equal(t, before+5*3*(3+1), simulator.Stats().Requests)
	state, _, err := client.Breaker.Read(t.Context())
	require.NoError(t, err)
	require.Equal(t, breaker.Closed, state)

	// Whatever becomes of the breaker meanwhile, a request that was made is paid for.
	opened := false
	client.OnRequest = func(Outcome) {
		if !opened {
			opened = true
			permit, err := client.Breaker.Allow(t.Context(), "another")
			require.NoError(t, err)
			require.NoError(t, permit.Report(t.Context(), breaker.Refused))
		}
	}
	_, err = client.Get(t.Context(), "500-bad0", "en")
	require.ErrorAs(t, err, &unavailable)
}

// A template that has failed once, for a moment, does not hide that the service dies
// afterwards, when all other templates come from the cache.
func TestAServiceThatDiesAfterATemplateHasFailed(t *testing.T) {
	t.Parallel()
	simulator, url := startSimulator(t)
	client := newClient(Options{URL: url, Breaker: newBreaker(t, testenv.StartRedis(t))})
	client.Tries = 1
	client.Breaker.OpenFor = time.Minute
	var unavailable *Unavailable
	_, err := client.Get(t.Context(), "500x1-order_shipped", "en")
	require.ErrorAs(t, err, &unavailable)
	_, err = client.Get(t.Context(), "welcome_notification", "en")
	require.NoError(t, err)

	require.NoError(t, simulator.SetTrouble("500-"))
	for range 1 + client.Breaker.Failures {
		_, err = client.Get(t.Context(), "500x1-order_shipped", "en")
		require.ErrorAs(t, err, &unavailable)
	}
	_, err = client.Get(t.Context(), "500x1-order_shipped", "en")
	var open *breaker.OpenError
	require.ErrorAs(t, err, &open)
}

func TestWithoutRedisThereIsNoRequest(t *testing.T) {
	t.Parallel()
	simulator, url := startSimulator(t)
	redis := testenv.StartRedis(t)
	client := newClient(Options{URL: url, Breaker: newBreaker(t, redis)})
	redis.Stop()
	_, err := client.Get(t.Context(), "welcome_notification", "en")
	require.ErrorContains(t, err, "circuit breaker of template_service")
	var unavailable *Unavailable
	require.NotErrorAs(t, err, &unavailable)
	require.Zero(t, simulator.Stats().Requests)
}

func TestRequestsAreTold(t *testing.T) {
	t.Parallel()
	_, url := startSimulator(t)
	var got []Outcome
	client := newClient(Options{URL: url, OnRequest: func(outcome Outcome) { got = append(got, outcome) }})
	for _, code := range []string{"welcome_notification", "nothing", "other-welcome_notification", "503x1-welcome_notification"} {
		_, _ = client.Get(t.Context(), code, "en")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := client.Get(ctx, "welcome_notification", "en")
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, []Outcome{Answered, NotThere, NotUsable, NotThereNow, Answered, Abandoned}, got)
	for _, outcome := range got {
		require.Contains(t, Outcomes(), outcome)
	}
}
