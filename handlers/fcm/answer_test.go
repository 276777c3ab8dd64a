package fcm

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/handlers"
	"pushq/internal/testenv"
	"pushq/tasks"
)

func refused(code int, message string) handlers.Outcome {
	return handlers.Outcome{Verdict: handlers.Permanent, ErrorType: tasks.ErrorFCM, ErrorCode: code, ErrorMessage: message}
}

func with(outcome handlers.Outcome, change func(*handlers.Outcome)) handlers.Outcome {
	change(&outcome)
	return outcome
}

func dropped(code int, message string) handlers.Outcome {
	return with(refused(code, message), func(o *handlers.Outcome) { o.DropToken = true })
}

func alarmed(code int, message string) handlers.Outcome {
	return with(refused(code, message), func(o *handlers.Outcome) { o.Alarm, o.ServiceFailed = true, true })
}

func retried(code int, message string) handlers.Outcome {
	return with(refused(code, message), func(o *handlers.Outcome) {
		o.Verdict, o.ServiceFailed, o.MaybeDelivered = handlers.Retryable, true, code == 503
	})
}

func braked(code int, message string, after time.Duration) handlers.Outcome {
	return with(refused(code, message), func(o *handlers.Outcome) {
		o.Verdict, o.Throttled, o.RetryAfter = handlers.Retryable, true, after
	})
}

// Every row of the table of errors of HTTP v1, and what else may come from there.
func TestAnswersOfV1(t *testing.T) {
	t.Parallel()
	simulator, provider := startProvider(t, V1)
	const malformed = "INVALID_ARGUMENT: The registration token is not a valid FCM registration token"
	for prefix, want := range map[string]handlers.Outcome{
		"":                    {},
		"202-":                {},
		"INVALID_ARGUMENT-":   refused(400, "INVALID_ARGUMENT: Request contains an invalid argument."),
		"MALFORMED_TOKEN-":    refused(400, malformed),
		"BAD_FIELD-":          refused(400, "INVALID_ARGUMENT: Invalid value at 'message.data[0].value' (TYPE_STRING), 1; message.data[0].value: Invalid value at 'message.data[0].value' (TYPE_STRING), 1"),
		"APNS_UNREGISTERED-":  dropped(400, "INVALID_ARGUMENT: Request contains an invalid argument.; Apple says 410 Unregistered"),
		"400-":                refused(400, "INVALID_ARGUMENT: Bad Request"),
		"html400-":            refused(400, "Bad Request"),
		"401-":                alarmed(401, "UNAUTHENTICATED: Unauthorized"),
		"SENDER_ID_MISMATCH-": dropped(403, "SENDER_ID_MISMATCH: SenderId mismatch"),
		"THIRD_PARTY_AUTH_ERROR-": with(refused(401, "THIRD_PARTY_AUTH_ERROR: Auth error from APNS or Web Push Service; Apple says 403 InvalidProviderToken"),
			func(o *handlers.Outcome) { o.Alarm = true }),
		"403-":                 alarmed(403, "PERMISSION_DENIED: Forbidden"),
		"html403-":             alarmed(403, "Forbidden"),
		"UNREGISTERED-":        dropped(404, "UNREGISTERED: Requested entity was not found."),
		"404-":                 alarmed(404, "NOT_FOUND: Not Found"),
		"html404-":             alarmed(404, "Not Found"),
		"QUOTA_EXCEEDED-":      braked(429, "QUOTA_EXCEEDED: Quota exceeded for quota metric 'Messages'.", time.Minute),
		"429-":                 braked(429, "RESOURCE_EXHAUSTED: Too Many Requests", time.Minute),
		"429after7-":           braked(429, "RESOURCE_EXHAUSTED: Too Many Requests", 7*time.Second),
		"html429-":             braked(429, "Too Many Requests", time.Minute),
		"INTERNAL-":            retried(500, "INTERNAL: Internal error encountered."),
		"html408-":             retried(408, "Request Timeout"),
		"html425-":             retried(425, "Too Early"),
		"html500-":             retried(500, "Internal Server Error"),
		"html502-":             retried(502, "Bad Gateway"),
		"html504-":             retried(504, "Gateway Timeout"),
		"504-":                 retried(504, "DEADLINE_EXCEEDED: Gateway Timeout"),
		"UNAVAILABLE-":         retried(503, "UNAVAILABLE: The service is currently unavailable."),
		"html503-":             retried(503, "Service Unavailable"),
		"ok-then-UNAVAILABLE-": retried(503, "UNAVAILABLE: The service is currently unavailable."),
		"UNAVAILABLEafter9-": with(retried(503, "UNAVAILABLE: The service is currently unavailable."),
			func(o *handlers.Outcome) { o.RetryAfter = 9 * time.Second }),
		"html200-": with(alarmed(200, "the answer is not Firebase's: see fcm.url (it may have been delivered)"),
			func(o *handlers.Outcome) { o.MaybeDelivered = true }),
		"302-": alarmed(302, "UNKNOWN: Found"),
		"413-": alarmed(413, "UNKNOWN: Request Entity Too Large"),
	} {
		before := simulator.Stats().Requests
		require.Equal(t, want, provider.send(t.Context(), messageTo(prefix+"ann")), prefix)
		requests := 1
		if prefix == "401-" {
			requests = 2 // with another access token
		}
		require.Equal(t, requests, simulator.Stats().Requests-before, prefix)
	}
	provider.DropMalformed = true
	require.Equal(t, dropped(400, malformed), provider.send(t.Context(), messageTo("MALFORMED_TOKEN-ann")))
	require.False(t, provider.send(t.Context(), messageTo("INVALID_ARGUMENT-ann")).DropToken)
	require.False(t, provider.send(t.Context(), messageTo("BAD_FIELD-ann")).DropToken)
}

// No status alone makes a token a dead one, and no code with another status.
func TestOnlyFirebaseItselfDropsTokens(t *testing.T) {
	t.Parallel()
	body := func(status int, details string) string {
		return fmt.Sprintf(`{"error":{"code":%d,"message":"UNREGISTERED not a valid FCM registration token","status":"UNREGISTERED","details":[%s]}}`, status, details)
	}
	detail := func(kind, code string) string { return fmt.Sprintf(`{"@type":%q,"errorCode":%q}`, kind, code) }
	for _, test := range []struct {
		status  int
		details string
		drop    bool
	}{
		{404, detail(fcmErrorType, unregistered), true},
		{404, detail("type.googleapis.com/other", "x") + "," + detail(fcmErrorType, unregistered), true},
		{403, detail(fcmErrorType, senderIDMismatch), true},
		{404, "", false},
		{404, detail("type.googleapis.com/other", unregistered), false},
		{404, detail(fcmErrorType, senderIDMismatch), false},
		{403, detail(fcmErrorType, unregistered), false},
		{400, detail(fcmErrorType, unregistered), false},
		{500, detail(fcmErrorType, unregistered), false},
		{400, `{"@type":"` + apnsErrorType + `","statusCode":410,"reason":"Unregistered"}`, true},
		{400, `{"@type":"` + apnsErrorType + `","statusCode":410,"reason":"ExpiredToken"}`, false},
		{400, `{"@type":"` + apnsErrorType + `","statusCode":400,"reason":"Unregistered"}`, false},
		{400, `{"@type":"other","statusCode":410,"reason":"Unregistered"}`, false},
		{400, detail("other", invalidArgument), false}, // the text alone, with DropMalformed
	} {
		text := body(test.status, test.details)
		provider := providerFor(t, V1, answerRaw(t, fmt.Sprintf("HTTP/1.1 %d No\r\nContent-Length: %d\r\n\r\n%s", test.status, len(text), text)))
		provider.DropMalformed = true
		require.Equal(t, test.drop, provider.send(t.Context(), messageTo("ann")).DropToken, "%d %s", test.status, test.details)
		half := text[:len(text)/2]
		provider = providerFor(t, V1, answerRaw(t, fmt.Sprintf("HTTP/1.1 %d No\r\nContent-Length: %d\r\n\r\n%s", test.status, len(text), half)))
		require.False(t, provider.send(t.Context(), messageTo("ann")).DropToken, "cut short: %d %s", test.status, test.details)
	}
}

// A success that does not name its message is somebody else's, and nothing was sent. A body
// that broke off may have had what is missing in it.
func TestStrangeAnswersOfV1(t *testing.T) {
	t.Parallel()
	foreign := func(code int) handlers.Outcome {
		return with(alarmed(code, "the answer is not Firebase's: see fcm.url (it may have been delivered)"),
			func(o *handlers.Outcome) { o.MaybeDelivered = true })
	}
	brokenOff := func(code int) handlers.Outcome { return retried(code, "the answer broke off") }
	const named, dead = `{"name":"projects/p/messages/0:1"}`,
		`{"error":{"code":404,"message":"Gone.","details":[{"@type":"` + fcmErrorType + `","errorCode":"UNREGISTERED"}]}}`
	for _, test := range []struct {
		status int
		body   string
		cut    bool
		want   handlers.Outcome
	}{
		{200, named, false, handlers.Outcome{}},
		{201, named, false, handlers.Outcome{}},
		{200, "OK", false, foreign(200)},
		{200, "{}", false, foreign(200)},
		{204, "", false, foreign(204)},
		{200, `{"name":""}`, false, foreign(200)},
		{200, `{"name":7}`, false, foreign(200)},
		{200, `{"status":"healthy"}`, false, foreign(200)},
		{200, `{"results":[{"message_id":"1:2"}]}`, false, foreign(200)},
		{200, named[:9], true, handlers.Outcome{}},
		{200, "", true, handlers.Outcome{}},
		{200, "<html><he", true, foreign(200)},
		{404, dead, false, dropped(404, "UNREGISTERED: Gone.")},
		{404, dead, true, dropped(404, "UNREGISTERED: Gone.")}, // only its end is missing
		{404, dead[:60], true, brokenOff(404)},
		{400, dead[:60], true, brokenOff(400)},
		{403, "", true, brokenOff(403)},
		{401, "", true, brokenOff(401)},
		{404, "<html><he", true, alarmed(404, "Not Found")},
		{404, dead[:60], false, alarmed(404, dead[:60])}, // that is how it is
		{429, dead[:60], true, braked(429, dead[:60], time.Minute)},
		{503, dead[:60], true, retried(503, dead[:60])},
	} {
		length := len(test.body)
		if test.cut {
			length++
		}
		answer := fmt.Sprintf("HTTP/1.1 %d Text\r\nContent-Length: %d\r\n\r\n%s", test.status, length, test.body)
		require.Equal(t, test.want, providerFor(t, V1, answerRaw(t, answer)).send(t.Context(), messageTo("ann")), "%d %s %v", test.status, test.body, test.cut)
	}
}

// Every row of the legacy protocol's table, and what else may come from there.
func TestAnswersOfLegacy(t *testing.T) {
	t.Parallel()
	simulator, provider := startProvider(t, Legacy)
	slowed := func(message string, after time.Duration) handlers.Outcome {
		return with(refused(200, message), func(o *handlers.Outcome) { o.Verdict, o.RetryAfter = handlers.Retryable, after })
	}
	tests := map[string]handlers.Outcome{
		"":                                 {},
		"202-":                             {},
		"NotRegistered-":                   dropped(200, "NotRegistered"),
		"InvalidRegistration-":             dropped(200, "InvalidRegistration"),
		"MissingRegistration-":             refused(200, "MissingRegistration"),
		"MismatchSenderId-":                refused(200, "MismatchSenderId"),
		"InvalidPackageName-":              refused(200, "InvalidPackageName"),
		"MessageTooBig-":                   refused(200, "MessageTooBig"),
		"InvalidDataKey-":                  refused(200, "InvalidDataKey"),
		"InvalidTtl-":                      refused(200, "InvalidTtl"),
		"InvalidParameters-":               refused(200, "InvalidParameters"),
		"InvalidApnsCredential-":           with(refused(200, "InvalidApnsCredential"), func(o *handlers.Outcome) { o.Alarm = true }),
		"Unavailable-":                     retried(200, "Unavailable"),
		"Unavailableafter7-":               with(retried(200, "Unavailable"), func(o *handlers.Outcome) { o.RetryAfter = 7 * time.Second }),
		"InternalServerError-":             retried(200, "InternalServerError"),
		"DeviceMessageRateExceeded-":       slowed("DeviceMessageRateExceeded", time.Minute),
		"TopicsMessageRateExceededafter3-": slowed("TopicsMessageRateExceeded", 3*time.Second),
		"DeprecatedApi-":                   alarmed(200, "DeprecatedApi: fcm.url does not take the legacy protocol any more, set fcm.mode to v1"),
		"400-":                             refused(400, "Bad Request"),
		"html401-":                         alarmed(401, "fcm.serverKey is not accepted: Unauthorized"),
		"html403-":                         alarmed(403, "Forbidden"),
		"html404-":                         alarmed(404, "Not Found"),
		"302-":                             alarmed(302, "Found"),
		"429-":                             braked(429, "Too Many Requests", time.Minute),
		"429after7-":                       braked(429, "Too Many Requests", 7*time.Second),
		"500-":                             retried(500, "Internal Server Error"),
		"html408-":                         retried(408, "Request Timeout"),
		"html425-":                         retried(425, "Too Early"),
		"html502-":                         retried(502, "Bad Gateway"),
		"503after9-":                       with(retried(503, "Service Unavailable"), func(o *handlers.Outcome) { o.RetryAfter = 9 * time.Second }),
		"html200-": with(alarmed(200, "the answer is not Firebase's: see fcm.url (it may have been delivered)"),
			func(o *handlers.Outcome) { o.MaybeDelivered = true }),
	}
	for prefix, want := range tests {
		require.Equal(t, want, provider.send(t.Context(), messageTo(prefix+"ann")), prefix)
	}
	require.Equal(t, len(tests), simulator.Stats().Requests)
	require.Zero(t, simulator.Stats().TokenRequests)
}

func TestStrangeAnswersOfLegacy(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]handlers.Verdict{
		`{"success":1,"results":[{"message_id":"1:2","registration_id":"new"}]}`: handlers.Delivered,
		`{"results":[{"error":"Surprise"}]}`:                                     handlers.Permanent,
		`{"success":1}`:                                                          handlers.Permanent,
		`{"results":[]}`:                                                         handlers.Permanent,
		`{"results":[{}]}`:                                                       handlers.Permanent,
		`{"results":[{},{}]}`:                                                    handlers.Permanent,
		`{"results":"NotRegistered"}`:                                            handlers.Permanent,
		`Error=NotRegistered`:                                                    handlers.Permanent,
		``:                                                                       handlers.Permanent,
	} {
		provider := providerFor(t, Legacy, answerRaw(t, fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)))
		outcome := provider.send(t.Context(), messageTo("ann"))
		require.Equal(t, want, outcome.Verdict, body)
		require.False(t, outcome.DropToken, body)
		require.Equal(t, want == handlers.Permanent && !strings.Contains(body, "Surprise"), outcome.MaybeDelivered, body)
	}
	provider := providerFor(t, Legacy, answerRaw(t, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"results\":[{\"err"))
	outcome := provider.send(t.Context(), messageTo("ann"))
	require.Equal(t, handlers.Retryable, outcome.Verdict)
	require.True(t, outcome.MaybeDelivered)
	require.True(t, outcome.ServiceFailed)
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	date := func(from time.Duration) string { return time.Now().Add(from).UTC().Format(http.TimeFormat) }
	const sloppy = 5 * time.Second // a date has whole seconds and time passes
	for _, test := range []struct {
		header            string
		least, most       time.Duration // of a 503, and a legacy 200
		leastOf429, of429 time.Duration
	}{
		{"Retry-After: 120", 2 * time.Minute, 2 * time.Minute, 2 * time.Minute, 2 * time.Minute},
		{"Retry-After: 120 ", 2 * time.Minute, 2 * time.Minute, 2 * time.Minute, 2 * time.Minute},
		{"retry-after: 120", 2 * time.Minute, 2 * time.Minute, 2 * time.Minute, 2 * time.Minute},
		{"RETRY-AFTER:120", 2 * time.Minute, 2 * time.Minute, 2 * time.Minute, 2 * time.Minute},
		{"Retry-After: 2", 2 * time.Second, 2 * time.Second, 2 * time.Second, 2 * time.Second},
		{"Retry-After: " + date(2*time.Minute), 2*time.Minute - sloppy, 2 * time.Minute, 2*time.Minute - sloppy, 2 * time.Minute},
		{"Retry-After: " + date(-2*time.Minute), 0, 0, time.Minute, time.Minute},
		{"Retry-After: " + date(24*time.Hour), 5 * time.Minute, 5 * time.Minute, 5 * time.Minute, 5 * time.Minute},
		{"Retry-After: -5", 0, 0, time.Minute, time.Minute},
		{"Retry-After: abc", 0, 0, time.Minute, time.Minute},
		{"Retry-After: 0", 0, 0, time.Minute, time.Minute},
		{"Retry-After: 86400", 5 * time.Minute, 5 * time.Minute, 5 * time.Minute, 5 * time.Minute},
		{"Other: 1", 0, 0, time.Minute, time.Minute},
	} {
		ask := func(mode string, status int, body string) time.Duration {
			address := answerRaw(t, fmt.Sprintf("HTTP/1.1 %d Text\r\n%s\r\nContent-Length: %d\r\n\r\n%s", status, test.header, len(body), body))
			return providerFor(t, mode, address).send(t.Context(), messageTo("ann")).RetryAfter
		}
		within := func(least, most, got time.Duration, what string) {
			require.GreaterOrEqual(t, got, least, "%s, %s", what, test.header)
			require.LessOrEqual(t, got, most, "%s, %s", what, test.header)
		}
		within(test.least, test.most, ask(V1, 503, ""), "503")
		within(test.least, test.most, ask(Legacy, 200, `{"results":[{"error":"Unavailable"}]}`), "Unavailable")
		within(test.leastOf429, test.of429, ask(V1, 429, ""), "429")
		within(test.leastOf429, test.of429, ask(Legacy, 200, `{"results":[{"error":"DeviceMessageRateExceeded"}]}`), "device rate")
		require.Zero(t, ask(V1, 400, ""))
		require.Zero(t, ask(Legacy, 200, `{"results":[{"error":"NotRegistered"}]}`))
	}
}

func TestTheCapHoldsForTheUsualPause(t *testing.T) {
	t.Parallel()
	_, provider := startProvider(t, V1)
	provider.MaxRetryAfter = 10 * time.Second
	require.Equal(t, 10*time.Second, provider.send(t.Context(), messageTo("QUOTA_EXCEEDED-ann")).RetryAfter)
	require.Zero(t, provider.send(t.Context(), messageTo("UNAVAILABLE-ann")).RetryAfter)
}

// The header has lower case letters in HTTP/2.
func TestRetryAfterInHTTP2(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 2 {
			w.Header().Set("Retry-After", "120")
		}
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	require.Equal(t, 2*time.Minute, providerFor(t, V1, server.URL).send(t.Context(), messageTo("ann")).RetryAfter)
}

func TestPagesInFrontOfFirebase(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{V1, Legacy} {
		simulator, provider := startProvider(t, mode)
		var verdicts []handlers.Verdict
		for range 3 {
			outcome := provider.send(t.Context(), messageTo("html502x2-ann"))
			verdicts = append(verdicts, outcome.Verdict)
			require.LessOrEqual(t, len(outcome.ErrorMessage), 1<<10)
		}
		require.Equal(t, []handlers.Verdict{handlers.Retryable, handlers.Retryable, handlers.Delivered}, verdicts)
		require.Equal(t, 1, simulator.Stats().Delivered)
	}
}

func TestAnAnswerThatQuotesTheRequestLosesItsSecret(t *testing.T) {
	t.Parallel()
	var secrets []string
	address := testenv.StartRawHTTP(t, func(connection net.Conn, request *http.Request, _ string) bool {
		secret := request.Header.Get("Authorization")
		secrets = append(secrets, strings.TrimPrefix(strings.TrimPrefix(secret, "Bearer "), "key="))
		_, _ = fmt.Fprintf(connection, "HTTP/1.1 400 No\r\nContent-Length: %d\r\n\r\n%s", len(secret)+4, "Bad "+secret)
		return false
	})
	require.Equal(t, "Bad Bearer [secret]", providerFor(t, V1, address).send(t.Context(), messageTo("ann")).ErrorMessage)
	require.Equal(t, "Bad key=[secret]", providerFor(t, Legacy, address).send(t.Context(), messageTo("ann")).ErrorMessage)
	require.True(t, strings.HasPrefix(secrets[0], "ya29."))
	require.Equal(t, serverKey, secrets[1])
}
