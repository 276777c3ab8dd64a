package swrve_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"pushq/handlers"
	"pushq/handlers/swrve"
	"pushq/internal/swrvesim"
	"pushq/internal/testenv"
	"pushq/tasks"
)

func TestMain(m *testing.M) {
	testenv.WithoutProxies()
	if target := os.Getenv(frozenSenderVariable); target != "" {
		beAFrozenSender(target)
		return
	}
	os.Exit(m.Run())
}

const campaignKey = "campaign-key-of-hello"

func config(url string) swrve.Config {
	return swrve.Config{
		URL:                url,
		Timeout:            10 * time.Second,
		Connections:        64,
		RetryStatuses:      []int{429, 500, 502, 503, 504},
		RetryNetworkErrors: true,
		MaxRetryAfter:      5 * time.Minute,
		PushKeys:           map[string]map[string]string{"Hello": {tasks.IOS: campaignKey}},
	}
}

func newClient(t *testing.T, config swrve.Config) *swrve.Client {
	client := swrve.New(config)
	t.Cleanup(client.Close)
	return client
}

func pushFor(user string) tasks.Push {
	return tasks.Push{Platform: tasks.IOS, MessagePrototypeKey: "Hello", PushKey: user, Message: "Hello client!"}
}

func send(t require.TestingT, client *swrve.Client, push tasks.Push) handlers.Outcome {
	send, impossible := client.Prepare(context.Background(), push)
	require.Nil(t, impossible)
	return send()
}

func startSimulator(t *testing.T, config swrvesim.Config) (simulator *swrvesim.Simulator, url string) {
	simulator = swrvesim.New(config)
	base, err := simulator.Start("127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, simulator.Close()) })
	return simulator, base + "/push"
}

// startRaw is testenv.StartRawHTTP in Swrve's place.
func startRaw(t *testing.T, answer func(connection net.Conn, request *http.Request, body string) bool) (url string) {
	return testenv.StartRawHTTP(t, answer) + "/push"
}

// answerRaw answers every request with the same bytes and closes the connection.
func answerRaw(t *testing.T, answer string) (url string) {
	return startRaw(t, func(connection net.Conn, _ *http.Request, _ string) bool {
		_, _ = io.WriteString(connection, answer)
		return false
	})
}

func TestRequest(t *testing.T) {
	t.Parallel()
	for _, test := range []bool{false, true} {
		t.Run(fmt.Sprint("test=", test), func(t *testing.T) {
			t.Parallel()
			var request *http.Request
			var form url.Values
			target := startRaw(t, func(connection net.Conn, got *http.Request, body string) bool {
				request = got
				form, _ = url.ParseQuery(body)
				_, _ = io.WriteString(connection, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
				return false
			})
			configured := config(target)
			configured.Test = test
			require.Equal(t, handlers.Outcome{}, send(t, newClient(t, configured), pushFor("ann")))

			want := url.Values{"push_key": {campaignKey}, "user": {"ann"}, "message": {"Hello client!"}}
			if test {
				want.Set("test", "1")
			}
			require.Equal(t, want, form)
			require.Equal(t, "POST /push", request.Method+" "+request.RequestURI)
			require.Equal(t, []string{"application/json"}, request.Header.Values("Accept"))
			require.Equal(t, []string{"application/x-www-form-urlencoded; charset=utf-8"}, request.Header.Values("Content-Type"))
			require.Equal(t, []string{"pushq"}, request.Header.Values("User-Agent"))
			require.Empty(t, request.Header.Values("Accept-Encoding"))
		})
	}
}

func TestAnyTextArrivesUnchanged(t *testing.T) {
	t.Parallel()
	simulator, target := startSimulator(t, swrvesim.Config{})
	anyText := rapid.OneOf(rapid.String(), rapid.StringN(0, -1, 2000), rapid.SampledFrom([]string{
		"", "a&b=c+d%20;e", "\x00\r\n\t", "žluťoučký 🐎 \u2028 \U0010FFFF", `{"a":"b"}`, " leading and trailing ",
	}))
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.StringN(1, -1, 200).Draw(t, "key")
		push := pushFor("u" + anyText.Draw(t, "user"))
		push.Message = anyText.Draw(t, "message")
		configured := config(target)
		configured.PushKeys = map[string]map[string]string{"Hello": {tasks.IOS: key}}
		client := swrve.New(configured)
		defer client.Close()
		require.Equal(t, handlers.Delivered, send(t, client, push).Verdict)
		ledger := simulator.Ledger()
		got := ledger[len(ledger)-1]
		require.Equal(t, []string{key, push.PushKey, push.Message, ""}, []string{got.PushKey, got.User, got.Message, got.Test})
		require.Empty(t, got.Other)
	})
}

// foreign is the outcome of an answer that is not Swrve's.
func foreign(what string, alarm bool) handlers.Outcome {
	status, _ := strconv.Atoi(what[:3])
	whose, success := "Swrve's, see swrve.url", status >= 200 && status < 300
	if success {
		whose += " (it may have been delivered)"
	}
	return handlers.Outcome{
		Verdict: handlers.Retryable, ErrorType: tasks.ErrorOther, ErrorCode: status,
		ErrorMessage:   "the answer is not " + whose + ": " + what,
		MaybeDelivered: success, ServiceFailed: true, Alarm: alarm, RefusesPushq: status == 401 || status == 403,
	}
}

func TestOutcomeOfAnswers(t *testing.T) {
	t.Parallel()
	refusal := func(verdict handlers.Verdict, code int, message string) handlers.Outcome {
		refusesPushq := code == 401 || code == 403
		return handlers.Outcome{
			Verdict: verdict, ErrorType: tasks.ErrorSwrve, ErrorCode: code, ErrorMessage: message, Throttled: code == 429,
			RefusesPushq: refusesPushq, Alarm: refusesPushq,
		}
	}
	retryable := func(code int) handlers.Outcome {
		return refusal(handlers.Retryable, code, http.StatusText(code))
	}
	permanent := func(code int) handlers.Outcome {
		return refusal(handlers.Permanent, code, http.StatusText(code))
	}
	redirect := func(code int) handlers.Outcome {
		return foreign(fmt.Sprintf(`%[1]d {"code":%[1]d,"message":"%[2]s"}`, code, http.StatusText(code)), true)
	}
	html := func(code int) string {
		return fmt.Sprintf("<html><head><title>%[1]d %[2]s</title></head><body><h1>%[1]d %[2]s</h1></body></html>", code, http.StatusText(code))
	}
	tests := map[string]handlers.Outcome{
		"":             {},
		"200-":         {},
		"201-":         {},
		"202-":         {},
		"204-":         {},
		"empty200-":    {},
		"body200-":     {},
		"body202-":     {},
		"text200-":     {},
		"body302-":     {}, // only codes from 400 contradict a 2xx
		"html200-":     foreign("200 with an HTML page", true),
		"error200-":    foreign(`200 {"error":"OK"}`, true),
		"error202-":    foreign(`202 {"error":"Accepted"}`, true),
		"cut200-":      foreign("200 with a body that broke off or is too long", false),
		"300-":         redirect(300),
		"301-":         redirect(301),
		"302-":         redirect(302),
		"303-":         redirect(303),
		"304-":         foreign("304 without a body", true),
		"307-":         redirect(307),
		"308-":         redirect(308),
		"400-":         refusal(handlers.Permanent, 400, "Rejected, User Has Changed Token"),
		"401-":         permanent(401),
		"403-":         permanent(403),
		"404-":         permanent(404),
		"413-":         permanent(413),
		"418-":         permanent(418),
		"429-":         refusal(handlers.Retryable, 429, "Rate Limit Exceeded"),
		"500-":         retryable(500),
		"501-":         permanent(501),
		"502-":         retryable(502),
		"503-":         retryable(503),
		"504-":         retryable(504),
		"505-":         permanent(505),
		"599-":         refusal(handlers.Permanent, 599, "Status 599"),
		"html302-":     foreign("302 with an HTML page", true),
		"empty302-":    foreign("302 without a body", true),
		"cut302-":      foreign("302 with a body that broke off or is too long", false),
		"html400-":     foreign("400 with an HTML page", true),
		"html401-":     foreign("401 with an HTML page", true),
		"html403-":     foreign("403 with an HTML page", true),
		"html404-":     foreign("404 with an HTML page", true),
		"html405-":     foreign("405 with an HTML page", true),
		"html407-":     foreign("407 with an HTML page", true),
		"html429-":     refusal(handlers.Retryable, 429, strings.ReplaceAll(html(429), "Too Many Requests", "Rate Limit Exceeded")),
		"html501-":     foreign("501 with an HTML page", true),
		"html502-":     refusal(handlers.Retryable, 502, html(502)),
		"text403-":     permanent(403),
		"text404-":     permanent(404),
		"empty404-":    refusal(handlers.Permanent, 404, ""),
		"error404-":    refusal(handlers.Permanent, 404, `{"error":"Not Found"}`),
		"body400-":     refusal(handlers.Permanent, 400, "Rejected, User Has Changed Token"),
		"body429-":     refusal(handlers.Retryable, 429, "Rate Limit Exceeded"),
		"body503-":     retryable(503),
		"text400-":     refusal(handlers.Permanent, 400, "Rejected, User Has Changed Token"),
		"text429-":     refusal(handlers.Retryable, 429, "Rate Limit Exceeded"),
		"text500-":     retryable(500),
		"empty400-":    refusal(handlers.Permanent, 400, ""),
		"error503-":    refusal(handlers.Retryable, 503, `{"error":"Service Unavailable"}`),
		"ok-then-503-": retryable(503),
	}
	simulator, target := startSimulator(t, swrvesim.Config{})
	client := newClient(t, config(target))
	for prefix, want := range tests {
		require.Equal(t, want, send(t, client, pushFor(prefix+"ann")), prefix)
	}
	require.Equal(t, len(tests), simulator.Stats().Requests, "a redirect was followed")
}

func TestRedirectsAreAnswers(t *testing.T) {
	t.Parallel()
	for _, location := range []string{"", "Location: /elsewhere\r\n", "Location: http://[::1\r\n"} {
		for _, status := range []int{301, 302, 307} {
			var requests atomic.Int32
			target := startRaw(t, func(connection net.Conn, _ *http.Request, _ string) bool {
				requests.Add(1)
				_, _ = fmt.Fprintf(connection, "HTTP/1.1 %d Moved\r\n%sContent-Length: 5\r\n\r\nmoved", status, location)
				return true
			})
			client := newClient(t, config(target))
			require.Equal(t, foreign(fmt.Sprint(status, " moved"), true), send(t, client, pushFor("ann")), "%d %s", status, location)
			require.EqualValues(t, 1, requests.Load())
			client.Close() // ends the connection, for which the server waits
		}
	}
}

func TestRetryStatusesAreConfigurable(t *testing.T) {
	t.Parallel()
	_, target := startSimulator(t, swrvesim.Config{})
	configured := config(target)
	configured.RetryStatuses = []int{400}
	client := newClient(t, configured)
	require.Equal(t, handlers.Retryable, send(t, client, pushFor("400-ann")).Verdict)
	require.Equal(t, handlers.Permanent, send(t, client, pushFor("500-ann")).Verdict)
	throttled := send(t, client, pushFor("429after7-ann"))
	require.Equal(t, handlers.Permanent, throttled.Verdict)
	require.True(t, throttled.Throttled)
	require.Equal(t, 7*time.Second, throttled.RetryAfter, "the others must wait all the same")
}

const brokeOff = "200 with a body that broke off or is too long"

func TestBodies(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, answer string
		want         handlers.Outcome
	}{
		{"2xx without a body", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", handlers.Outcome{}},
		{"2xx with a body cut short", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"code\":4", foreign(brokeOff, false)},
		{"2xx with a body cut short at its start", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n", foreign(brokeOff, false)},
		{"2xx with a chunk cut short", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n{", foreign(brokeOff, false)},
		{"2xx of which only blanks are missing", "HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n{\"code\":200}", handlers.Outcome{}},
		{"5xx with a body cut short", "HTTP/1.1 503 No\r\nContent-Length: 100\r\n\r\nbusy", handlers.Outcome{
			Verdict: handlers.Retryable, ErrorType: tasks.ErrorSwrve, ErrorCode: 503, ErrorMessage: "busy",
		}},
		{"blank body", "HTTP/1.1 400 No\r\nContent-Length: 3\r\n\r\n \r\n", handlers.Outcome{
			Verdict: handlers.Permanent, ErrorType: tasks.ErrorSwrve, ErrorCode: 400,
		}},
		{"other JSON", "HTTP/1.1 400 No\r\nContent-Length: 15\r\n\r\n{\"error\":\"gone\"}"[:len("HTTP/1.1 400 No\r\nContent-Length: 15\r\n\r\n")+15], handlers.Outcome{
			Verdict: handlers.Permanent, ErrorType: tasks.ErrorSwrve, ErrorCode: 400, ErrorMessage: `{"error":"gone"`,
		}},
		{"status beats a good code", "HTTP/1.1 500 No\r\nContent-Length: 27\r\n\r\n{\"code\":200,\"message\":\"OK\"}", handlers.Outcome{
			Verdict: handlers.Retryable, ErrorType: tasks.ErrorSwrve, ErrorCode: 500, ErrorMessage: "OK",
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			client := newClient(t, config(answerRaw(t, test.answer)))
			require.Equal(t, test.want, send(t, client, pushFor("ann")))
		})
	}
}

// A 2xx is a success only if Swrve can have said so: with nothing in its body, or with JSON
// that names no error.
func TestSuccessesThatSwrveCanHaveSaid(t *testing.T) {
	t.Parallel()
	const json, page, text = "application/json", "text/html", "text/plain; charset=utf-8"
	failed := func(verdict handlers.Verdict, code int, message string) handlers.Outcome {
		refusesPushq := code == 403
		return handlers.Outcome{Verdict: verdict, ErrorType: tasks.ErrorSwrve, ErrorCode: code, ErrorMessage: message, RefusesPushq: refusesPushq, Alarm: refusesPushq}
	}
	another := func(what string) handlers.Outcome { return foreign("200 "+what, true) }
	as := func(body string) handlers.Outcome { return another(body) }
	var zipped bytes.Buffer
	zip := gzip.NewWriter(&zipped)
	_, _ = io.WriteString(zip, `{"code":200,"message":"OK"}`)
	require.NoError(t, zip.Close())

	for _, test := range []struct {
		mediaType, body string
		want            handlers.Outcome
	}{
		// Nothing is said.
		{"", "", handlers.Outcome{}},
		{page, "", handlers.Outcome{}},
		{text, " \r\n\t", handlers.Outcome{}},
		{json, "null", handlers.Outcome{}},
		// JSON that names no error, whatever it is called.
		{json, `{"code":200,"message":"OK"}`, handlers.Outcome{}},
		{page, `{"code":200,"message":"OK"}`, handlers.Outcome{}},
		{"application/json; charset=utf-16", `{"code":200,"message":"OK"}`, handlers.Outcome{}},
		{json, "\ufeff \n{\"code\":200}\n", handlers.Outcome{}},
		{json, " \n\ufeff{\"code\":200}\n", handlers.Outcome{}},
		{json, `{}`, handlers.Outcome{}},
		{json, `[]`, handlers.Outcome{}},
		{json, `[{"code":200},{}]`, handlers.Outcome{}},
		{json, `{"id":7,"status":"queued"}`, handlers.Outcome{}},
		{json, `{"code":200,"message":["odd"],"error":null,"errors":[]}`, handlers.Outcome{}},
		{json, `{"code":null}`, handlers.Outcome{}},
		{json, `{"code":0}`, handlers.Outcome{}},
		{json, `{"code":"200"}`, handlers.Outcome{}},
		{json, `{"code":2e2}`, handlers.Outcome{}},
		{json, "{\"code\":200,\"message\":\"\xff\"}", handlers.Outcome{}},
		// A code from 400 is the status.
		{json, `{"code":500}`, failed(handlers.Retryable, 500, `{"code":500}`)},
		{json, `{"code":"500"}`, failed(handlers.Retryable, 500, `{"code":"500"}`)},
		{page, `{"code":"500"}`, failed(handlers.Retryable, 500, `{"code":"500"}`)},
		{json, `{"code":" 503 ","message":"Busy"}`, failed(handlers.Retryable, 503, "Busy")},
		{json, `{"code":500.0,"message":7}`, failed(handlers.Retryable, 500, `{"code":500.0,"message":7}`)},
		{json, `{"code":4.03e2,"message":"No"}`, failed(handlers.Permanent, 403, "No")},
		{json, `{"code":"400","message":"No such external ID"}`, failed(handlers.Permanent, 400, "No such external ID")},
		{json, "\ufeff{\"code\":599}", failed(handlers.Permanent, 599, "\ufeff{\"code\":599}")},
		{json, `[{"code":200},{"code":500}]`, failed(handlers.Retryable, 500, `[{"code":200},{"code":500}]`)},
		// A code that no status can be.
		{json, `{"code":600}`, as(`{"code":600}`)},
		{json, `{"code":123456789012345678}`, as(`{"code":123456789012345678}`)},
		{json, `{"code":1e999}`, as(`{"code":1e999}`)},
		{json, `{"code":-1}`, as(`{"code":-1}`)},
		{json, `{"code":500.5}`, as(`{"code":500.5}`)},
		{json, `{"code":"INTERNAL"}`, as(`{"code":"INTERNAL"}`)},
		{json, `{"code":""}`, as(`{"code":""}`)},
		{json, `{"code":{"value":500}}`, as(`{"code":{"value":500}}`)},
		{json, `{"code":[500]}`, as(`{"code":[500]}`)},
		{json, `{"code":true}`, as(`{"code":true}`)},
		// An error in other words.
		{json, `{"error":"no"}`, as(`{"error":"no"}`)},
		{json, `{"code":200,"error":{"code":7}}`, as(`{"code":200,"error":{"code":7}}`)},
		{json, `{"errors":["no"]}`, as(`{"errors":["no"]}`)},
		{json, `{"success":false}`, as(`{"success":false}`)},
		{json, `[{"error":"no"}]`, as(`[{"error":"no"}]`)},
		{json, `["no"]`, as(`["no"]`)},
		// No JSON, or no object.
		{json, "OK", as("OK")},
		{text, "OK", as("OK")},
		{json, `"OK"`, as(`"OK"`)},
		{json, "500", as("500")},
		{json, "true", as("true")},
		{json, `{"code":200} {"code":500}`, as(`{"code":200} {"code":500}`)},
		{json, `{"code":200`, as(`{"code":200`)},
		{page, "<!DOCTYPE html><h1>Sign in</h1>", another("with an HTML page")},
		{json, " \n<html></html>", another("with an HTML page")},
		{text, strings.Repeat("no ", 100), as(strings.TrimSpace(strings.Repeat("no ", 100)))},
		{json, zipped.String(), another("with a body that is no text")},
		{json, "\xfe\xff\x00{\x00}", another("with a body that is no text")},
		// More than is read.
		{json, `{"message":"` + strings.Repeat("x", 64<<10) + `"}`, foreign(brokeOff, false)},
		{text, strings.Repeat(" ", 64<<10) + "<html>", foreign(brokeOff, false)},
	} {
		answer := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", test.mediaType, len(test.body), test.body)
		require.Equal(t, test.want, send(t, newClient(t, config(answerRaw(t, answer))), pushFor("ann")), "%s %.80q", test.mediaType, test.body)
	}
	answer := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s", zipped.Len(), zipped.String())
	require.Equal(t, another(`in the encoding "gzip", which was not asked for`), send(t, newClient(t, config(answerRaw(t, answer))), pushFor("ann")))
}

func TestAHugeBodyIsNotReadToItsEnd(t *testing.T) {
	t.Parallel()
	const size = 1 << 30
	var written atomic.Int64
	part := strings.Repeat("<p>no</p>", 4096)
	target := startRaw(t, func(connection net.Conn, _ *http.Request, _ string) bool {
		_, _ = fmt.Fprintf(connection, "HTTP/1.1 502 Bad\r\nContent-Length: %d\r\n\r\n", size)
		for written.Load() < size {
			n, err := io.WriteString(connection, part)
			written.Add(int64(n))
			if err != nil {
				break
			}
		}
		return false
	})
	outcome := send(t, newClient(t, config(target)), pushFor("ann"))
	require.Equal(t, handlers.Retryable, outcome.Verdict)
	require.LessOrEqual(t, len(outcome.ErrorMessage), 64<<10)
	// What the kernel buffers is written, too.
	require.Less(t, written.Load(), int64(size/4))
}

// After a 101 the connection is no longer HTTP, and no context ends its body.
func TestSwitchingProtocolsIsAnAnswerWithoutABody(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{})
	target := startRaw(t, func(connection net.Conn, _ *http.Request, _ string) bool {
		_, _ = io.WriteString(connection, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n")
		_, _ = io.Copy(io.Discard, connection)
		close(gone)
		return false
	})
	require.Equal(t, foreign("101 without a body", true), send(t, newClient(t, config(target)), pushFor("ann")))
	<-gone
}

func TestABodyThatNeverEndsIsLeftAtTheTimeout(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{})
	target := startRaw(t, func(connection net.Conn, _ *http.Request, _ string) bool {
		_, _ = io.WriteString(connection, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
		_, _ = io.Copy(io.Discard, connection)
		close(gone)
		return false
	})
	configured := config(target)
	configured.Timeout = 300 * time.Millisecond
	require.Equal(t, foreign(brokeOff, false), send(t, newClient(t, configured), pushFor("ann")))
	<-gone
}

func TestNetworkErrors(t *testing.T) {
	t.Parallel()
	_, simulator := startSimulator(t, swrvesim.Config{})
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	silent, err := net.Listen("tcp", "127.0.0.1:0") // the kernel accepts, nobody answers
	require.NoError(t, err)
	t.Cleanup(func() { _ = silent.Close() })
	const short, long = 2 * time.Second, time.Minute

	tests := []struct {
		name, url, user string
		timeout         time.Duration
		maybeDelivered  bool
		message         string
	}{
		{"refused", "http://" + testenv.FreeAddress(t) + "/push", "ann", long, false, "connection refused"},
		{"no such host", "http://no..such.host/push", "ann", long, false, "no such host"},
		{"no TLS on the other side", strings.Replace(simulator, "http:", "https:", 1), "ann", long, false, "TLS"},
		{"unknown certificate", secure.URL, "ann", long, false, "certificate"},
		{"timeout in the TLS handshake", "https://" + silent.Addr().String(), "ann", short, false, "timeout"},
		{"reset", simulator, "reset-ann", long, true, "connection reset"},
		{"closed without an answer", answerRaw(t, ""), "ann", long, true, "EOF"},
		{"cut in the header", answerRaw(t, "HTTP/1.1 200 O"), "ann", long, true, "EOF"},
		{"not HTTP", answerRaw(t, "220 mail ready\r\n\r\n"), "ann", long, true, "malformed"},
		{"timeout", simulator, "hang-ann", short, true, "timeout after 2s"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			for retry, verdict := range map[bool]handlers.Verdict{true: handlers.Retryable, false: handlers.Permanent} {
				configured := config(test.url)
				configured.RetryNetworkErrors = retry
				configured.Timeout = test.timeout
				client := newClient(t, configured)
				began := time.Now()
				outcome := send(t, client, pushFor(test.user))
				if test.timeout == short {
					require.GreaterOrEqual(t, time.Since(began), short)
				}
				require.Less(t, time.Since(began), client.MaxDuration()+time.Minute, "late on a busy machine, but not for ever")

				require.True(t, strings.HasPrefix(outcome.ErrorMessage, "no answer: "), outcome.ErrorMessage)
				require.Contains(t, outcome.ErrorMessage, test.message)
				require.Equal(t, test.maybeDelivered, strings.HasSuffix(outcome.ErrorMessage, " (it may have been delivered)"))
				require.NotContains(t, outcome.ErrorMessage, campaignKey)
				outcome.ErrorMessage = ""
				require.Equal(t, handlers.Outcome{
					Verdict: verdict, ErrorType: tasks.ErrorOther, MaybeDelivered: test.maybeDelivered,
				}, outcome)
			}
		})
	}
}

func TestAURLThatIsNone(t *testing.T) {
	t.Parallel()
	outcome := send(t, newClient(t, config("http://a b/push")), pushFor("ann"))
	require.Equal(t, handlers.Permanent, outcome.Verdict)
	require.Contains(t, outcome.ErrorMessage, "swrve.url: ")
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	date := func(from time.Duration) string { return time.Now().Add(from).UTC().Format(http.TimeFormat) }
	const sloppy = 5 * time.Second // a date has whole seconds and time passes
	tests := []struct {
		status      int
		header      string
		least, most time.Duration
	}{
		{429, "Retry-After: 120\r\n", 2 * time.Minute, 2 * time.Minute},
		{429, "Retry-After: 120 \r\n", 2 * time.Minute, 2 * time.Minute},
		{429, "retry-after: 120\r\n", 2 * time.Minute, 2 * time.Minute},
		{429, "RETRY-AFTER:120\r\n", 2 * time.Minute, 2 * time.Minute},
		{429, "Retry-After: " + date(2*time.Minute) + "\r\n", 2*time.Minute - sloppy, 2 * time.Minute},
		{429, "Retry-After: " + date(-2*time.Minute) + "\r\n", 0, 0},
		{429, "Retry-After: " + date(24*time.Hour) + "\r\n", 5 * time.Minute, 5 * time.Minute},
		{429, "Retry-After: -5\r\n", 0, 0},
		{429, "Retry-After: abc\r\n", 0, 0},
		{429, "Retry-After: 1.5\r\n", 0, 0},
		{429, "Retry-After: 0\r\n", 0, 0},
		{429, "Retry-After:\r\n", 0, 0},
		{429, "", 0, 0},
		{429, "Retry-After: 86400\r\n", 5 * time.Minute, 5 * time.Minute},
		{429, "Retry-After: 99999999999999999999\r\n", 5 * time.Minute, 5 * time.Minute},
		{503, "Retry-After: 120\r\n", 2 * time.Minute, 2 * time.Minute},
		{400, "Retry-After: 120\r\n", 0, 0},
		{200, "Retry-After: 120\r\n", 0, 0},
	}
	for _, test := range tests {
		target := answerRaw(t, fmt.Sprintf("HTTP/1.1 %d No\r\n%sContent-Length: 0\r\n\r\n", test.status, test.header))
		outcome := send(t, newClient(t, config(target)), pushFor("ann"))
		require.GreaterOrEqual(t, outcome.RetryAfter, test.least, "%d %s", test.status, test.header)
		require.LessOrEqual(t, outcome.RetryAfter, test.most, "%d %s", test.status, test.header)
		require.Equal(t, test.status == 429, outcome.Throttled)
	}
}

func TestConnectionsAreKept(t *testing.T) {
	t.Parallel()
	simulator, target := startSimulator(t, swrvesim.Config{})
	client := newClient(t, config(target))
	for i := range 200 {
		user := "ann"
		if i%10 == 0 {
			user = "503-ann" // its answer is read as well
		}
		send(t, client, pushFor(user))
	}
	require.Equal(t, 200, simulator.Stats().Requests)
	require.LessOrEqual(t, simulator.Stats().Connections, 4, "one is not used for ever")
}

func TestConnectionsAreReusedUnderLoad(t *testing.T) {
	t.Parallel()
	const senders, rounds = 50, 5
	simulator, target := startSimulator(t, swrvesim.Config{Latency: swrvesim.FixedLatency(200 * time.Millisecond)})
	client := newClient(t, config(target))
	for range rounds {
		var running sync.WaitGroup
		for range senders {
			running.Go(func() {
				if outcome := send(t, client, pushFor("ann")); outcome.Verdict != handlers.Delivered {
					t.Errorf("not delivered: %+v", outcome)
				}
			})
		}
		running.Wait()
	}
	require.Equal(t, senders*rounds, simulator.Stats().Delivered)
	require.LessOrEqual(t, simulator.Stats().Connections, 2*senders, "one is not used for ever")
}

// A request on a connection that the server closes at that moment cannot be
// told from one that was taken; it is up to the pipeline to make it again.
func TestAServerThatDropsIdleConnections(t *testing.T) {
	t.Parallel()
	const pushes = 30
	var taken atomic.Int32
	closed := make(chan struct{}, 3*pushes)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { taken.Add(1) }))
	server.Config.IdleTimeout = 5 * time.Millisecond
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			closed <- struct{}{}
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	client := newClient(t, config(server.URL))
	for range pushes {
		outcome := send(t, client, pushFor("ann"))
		if outcome.Verdict != handlers.Delivered {
			require.Equal(t, handlers.Retryable, outcome.Verdict)
			require.True(t, outcome.MaybeDelivered)
			outcome = send(t, client, pushFor("ann"))
		}
		require.Equal(t, handlers.Outcome{}, outcome)
		<-closed
	}
	require.EqualValues(t, pushes, taken.Load())
}

func TestMissingPushKeys(t *testing.T) {
	t.Parallel()
	configured := config("http://127.0.0.1:1/")
	configured.PushKeys = map[string]map[string]string{
		"Hello":          {tasks.IOS: "hello"},
		"Good bye. v1.2": {tasks.Android: "good-bye"},
		"Empty":          {tasks.IOS: ""},
	}
	client := newClient(t, configured)
	tests := []struct {
		prototype, platform string
		known               bool
	}{
		{"Hello", tasks.IOS, true},
		{"Good bye. v1.2", tasks.Android, true},
		{"Hello", tasks.Android, false},
		{"hello", tasks.IOS, false},
		{"Hello ", tasks.IOS, false},
		{"Hello", "ios", false},
		{"Good bye. v1", tasks.Android, false},
		{"Good  bye. v1.2", tasks.Android, false},
		{"Empty", tasks.IOS, false},
		{"", "", false},
	}
	for _, test := range tests {
		send, impossible := client.Prepare(context.Background(), tasks.Push{MessagePrototypeKey: test.prototype, Platform: test.platform, PushKey: "ann"})
		require.Equal(t, test.known, send != nil, "%+v", test)
		if test.known {
			require.Nil(t, impossible)
			continue
		}
		require.Equal(t, &handlers.Outcome{
			Verdict: handlers.Permanent, ErrorType: tasks.ErrorMessagePrototypeKey,
			ErrorMessage: fmt.Sprintf("no push key for prototype %q on %s: add it to swrve.messagePrototypePushKeys, restart the workers, and retry the push",
				test.prototype, test.platform),
		}, impossible)
	}
}

func TestAnAnswerThatQuotesTheRequestLosesItsPushKey(t *testing.T) {
	t.Parallel()
	_, address := startSimulator(t, swrvesim.Config{})
	for _, key := range []string{campaignKey, "key with +/&=% and ü"} {
		options := config(address)
		options.PushKeys = map[string]map[string]string{"Hello": {tasks.IOS: key}}
		options.URL = startRaw(t, func(connection net.Conn, _ *http.Request, body string) bool {
			text := strings.Repeat("x", 190-strings.Index(body, "push_key=")) + body // not in JSON
			_, _ = fmt.Fprintf(connection, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
			return false
		})
		outcome := send(t, newClient(t, options), pushFor("ann"))
		require.Contains(t, outcome.ErrorMessage, "push_key=[push_key]&user=ann")
		options.URL = address
		outcome = send(t, newClient(t, options), pushFor("echo400-ann"))
		require.Equal(t, 400, outcome.ErrorCode)
		require.Equal(t, "Rejected: message=Hello+client%21&push_key=[push_key]&user=echo400-ann", outcome.ErrorMessage)
	}
}
