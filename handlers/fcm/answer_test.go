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
	"pushq/internal/exchange"
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
	return with(refused(code, message), func(o *handlers.Outcome) { o.Alarm, o.ServiceFailed, o.RefusesPushq = true, true, true })
}

func retried(code int, message string) handlers.Outcome {
	return with(refused(code, message), func(o *handlers.Outcome) {
		o.Verdict, o.ServiceFailed, o.MaybeDelivered = handlers.Retryable, true, code == 503
	})
}

// another is the outcome of an answer that is not Firebase's.
func another(code int, what string) handlers.Outcome {
	message := fmt.Sprintf("the answer is not Firebase's, see fcm.url: %d %s", code, what)
	if exchange.Success(code) {
		message = fmt.Sprintf("the answer is not Firebase's, see fcm.url (it may have been delivered): %d %s", code, what)
	}
	return with(retried(code, message), func(o *handlers.Outcome) {
		o.MaybeDelivered, o.Alarm = exchange.Success(code), what != brokenOff
		// Somebody lets nothing through.
		o.RefusesPushq = (code == 401 || code == 403 || code == 404) && what == aPage
	})
}

const (
	aPage     = "with an HTML page"
	brokenOff = "with a body that broke off or is too long"
)

func braked(code int, message string, after time.Duration) handlers.Outcome {
	return with(refused(code, message), func(o *handlers.Outcome) {
		o.Verdict, o.Throttled, o.RetryAfter = handlers.Retryable, true, after
	})
}

// ofTarget is the outcome of a 429 that is about one device or topic.
func ofTarget(message string, after time.Duration) handlers.Outcome {
	return with(braked(429, message, after), func(o *handlers.Outcome) { o.Throttled = false })
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
		"html400-":            another(400, aPage),
		"401-":                alarmed(401, "UNAUTHENTICATED: Unauthorized"),
		"SENDER_ID_MISMATCH-": dropped(403, "SENDER_ID_MISMATCH: SenderId mismatch"),
		"THIRD_PARTY_AUTH_ERROR-": with(refused(401, "THIRD_PARTY_AUTH_ERROR: Auth error from APNS or Web Push Service; Apple says 403 InvalidProviderToken"),
			func(o *handlers.Outcome) { o.Alarm = true }),
		"403-":                 alarmed(403, "PERMISSION_DENIED: Forbidden"),
		"html401-":             another(401, aPage),
		"html403-":             another(403, aPage),
		"UNREGISTERED-":        dropped(404, "UNREGISTERED: Requested entity was not found."),
		"UNREGISTERED_ODD-":    dropped(404, "UNREGISTERED: Requested entity was not found."),
		"404-":                 alarmed(404, "NOT_FOUND: Not Found"),
		"html404-":             another(404, aPage),
		"QUOTA_EXCEEDED-":      braked(429, "QUOTA_EXCEEDED: Quota exceeded for quota metric 'Messages'.", time.Minute),
		"PROJECT_QUOTA-":       braked(429, "QUOTA_EXCEEDED: Quota exceeded for quota metric 'Messages'.; project:1234567890: Message rate exceeded", time.Minute),
		"DEVICE_QUOTA-":        ofTarget("QUOTA_EXCEEDED: Device quota exceeded.; device:0: Device message rate exceeded", time.Minute),
		"TOPIC_QUOTAafter7-":   ofTarget("QUOTA_EXCEEDED: Topic quota exceeded.; topic:news: Topic message rate exceeded", 7*time.Second),
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
		"html200-": another(200, aPage),
		"302-":     alarmed(302, "UNKNOWN: Found"),
		"413-":     alarmed(413, "UNKNOWN: Request Entity Too Large"),
	} {
		before := simulator.Stats().Requests
		require.Equal(t, want, provider.send(t.Context(), messageTo(prefix+"ann")), prefix)
		requests := 1
		if prefix == "401-" || prefix == "html401-" {
			requests = 2 // with another access token
		}
		require.Equal(t, requests, simulator.Stats().Requests-before, prefix)
	}
	provider.DropMalformed = true
	require.Equal(t, dropped(400, malformed), provider.send(t.Context(), messageTo("MALFORMED_TOKEN-ann")))
	require.False(t, provider.send(t.Context(), messageTo("INVALID_ARGUMENT-ann")).DropToken)
	require.False(t, provider.send(t.Context(), messageTo("BAD_FIELD-ann")).DropToken)
}

// Only where each quota that is exceeded is that of a device or topic is the answer about one
// push alone.
func TestWhoseQuotaIsExceeded(t *testing.T) {
	t.Parallel()
	const kind = `{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":`
	for details, throttled := range map[string]bool{
		kind + `[{"subject":"device:abc","description":"too many"}]}`:                                             false,
		kind + `[{"subject":"Topic","description":""}]}`:                                                          false,
		kind + `{"description":"The rate of messages to subscribers to a particular topic is too high."}}`:        false,
		kind + `[{"subject":"registration","description":"Device message rate exceeded"},{"subject":"topic:a"}]}`: false,
		kind + `[{"subject":"device:abc"}]},` + kind + `[{"subject":"topic:abc"}]}`:                               false,
		kind + `[{"subject":"device:abc"}]},` + kind + `[{"subject":"project:abc"}]}`:                             true,
		kind + `[{"subject":"device:abc"},{"subject":"project:1"}]}`:                                              true,
		kind + `[{"subject":"projects/my-device","description":"Message rate exceeded"}]}`:                        true,
		kind + `[{"subject":"project:topic","description":"topic"}]}`:                                             true,
		kind + `[{"subject":"devicefarm"}]}`:                                                                      true,
		kind + `[{"subject":7,"description":["device"]}]}`:                                                        true,
		kind + `[]}`: true,
		kind + `7}`:  true,
		`{"@type":"type.googleapis.com/google.rpc.Help","violations":[{"subject":"device:abc"}]}`: true,
		`{"violations":[{"subject":"device:abc"}]}`:                                               true,
		``: true,
	} {
		text := `{"error":{"code":429,"message":"Quota exceeded.","status":"RESOURCE_EXHAUSTED","details":[` + details + `]}}`
		provider := providerFor(t, V1, answerRaw(t, fmt.Sprintf("HTTP/1.1 429 No\r\nContent-Length: %d\r\n\r\n%s", len(text), text)))
		outcome := provider.send(t.Context(), messageTo("ann"))
		require.Equal(t, throttled, outcome.Throttled, details)
		require.Equal(t, handlers.Retryable, outcome.Verdict, details)
		require.Equal(t, time.Minute, outcome.RetryAfter, details)
		require.False(t, outcome.ServiceFailed, details)
	}
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

// An answer that Firebase cannot have given is no success, and the end of no push.
func TestStrangeAnswersOfV1(t *testing.T) {
	t.Parallel()
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
		{200, "\ufeff \n" + named, false, handlers.Outcome{}},
		{200, `{"name":"projects/p/messages/0:1","more":[7]}`, false, handlers.Outcome{}},
		{200, named, true, handlers.Outcome{}}, // only its end is missing
		{200, "OK", false, another(200, "OK")},
		{200, "{}", false, another(200, "{}")},
		{204, "", false, another(204, "without a body")},
		{200, `{"name":""}`, false, another(200, `{"name":""}`)},
		{200, `{"name":7}`, false, another(200, `{"name":7}`)},
		{200, `{"name":"node-1"}`, false, another(200, `{"name":"node-1"}`)},
		{200, `{"name":"projects/p/messages/1","error":{"code":500}}`, false, another(200, `{"name":"projects/p/messages/1","error":{"code":500}}`)},
		{200, `[` + named + `]`, false, another(200, `[`+named+`]`)},
		{200, `{"status":"healthy"}`, false, another(200, `{"status":"healthy"}`)},
		{200, `{"results":[{"message_id":"1:2"}]}`, false, another(200, `{"results":[{"message_id":"1:2"}]}`)},
		{200, named[:9], true, another(200, brokenOff)},
		{200, "", true, another(200, brokenOff)},
		{200, "<html><he", true, another(200, brokenOff)},
		{404, dead, false, dropped(404, "UNREGISTERED: Gone.")},
		{404, dead, true, dropped(404, "UNREGISTERED: Gone.")}, // only its end is missing
		{404, dead[:60], true, another(404, brokenOff)},
		{400, dead[:60], true, another(400, brokenOff)},
		{403, "", true, another(403, brokenOff)},
		{401, "", true, another(401, brokenOff)},
		{404, "<html><he", true, another(404, brokenOff)},
		{404, dead[:60], false, another(404, dead[:60])}, // that is how it is
		{400, "Bad", false, another(400, "Bad")},
		{400, "", false, another(400, "without a body")},
		{400, `{"error":"invalid"}`, false, another(400, `{"error":"invalid"}`)},
		{400, `{"error":{"reason":"policy"}}`, false, another(400, `{"error":{"reason":"policy"}}`)},
		{400, `{"message":"no"}`, false, another(400, `{"message":"no"}`)},
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

// Whatever else an error has, what is known of it is read.
func TestErrorsOfV1AreReadFieldByField(t *testing.T) {
	t.Parallel()
	const detail = `{"@type":"` + fcmErrorType + `","errorCode":"UNREGISTERED"}`
	for body, message := range map[string]string{
		`{"error":{"code":404,"message":"Gone.","status":"NOT_FOUND","details":[7,"x",null,[],` + detail + `]}}`:                                        "UNREGISTERED: Gone.",
		`{"error":{"code":404,"message":"Gone.","details":[{"@type":7,"errorCode":"x"},{"@type":"t","reason":{},"fieldViolations":7},` + detail + `]}}`: "UNREGISTERED: Gone.",
		`{"error":{"code":404,"message":"Gone.","details":[{"@type":"` + fcmErrorType + `","errorCode":5},` + detail + `]}}`:                            "UNREGISTERED: Gone.",
		`{"error":{"code":404,"message":"Gone.","details":[` + detail + `,{"@type":"` + fcmErrorType + `","errorCode":null}]}}`:                         "UNREGISTERED: Gone.",
		`{"error":{"code":404,"message":"Gone.","details":` + detail + `}}`:                                                                             "UNREGISTERED: Gone.",
		`{"error":{"code":"404","message":"Gone.","status":404,"details":[` + detail + `]}}`:                                                            "UNREGISTERED: Gone.",
		`{"error":{"code":{},"message":["Gone."],"status":null,"details":[` + detail + `]},"more":[{}]}`:                                                "UNREGISTERED: ",
		"\ufeff" + `{"error":{"details":[` + detail + `]}}`:                                                                                             "UNREGISTERED: ",
		`{"error":{"message":"Gone.","details":[` + detail + `,{"fieldViolations":[{"field":7,"description":"d"},8,{"field":"f","description":[]}]}]}}`: "UNREGISTERED: Gone.; : d; f: ",
		`{"error":{"message":"Gone.","details":[` + detail + `,{"@type":"` + apnsErrorType + `","statusCode":"410","reason":7}]}}`:                      `UNREGISTERED: Gone.; Apple says "410" `,
	} {
		answer := fmt.Sprintf("HTTP/1.1 404 No\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		require.Equal(t, dropped(404, message), providerFor(t, V1, answerRaw(t, answer)).send(t.Context(), messageTo("ann")), body)
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
		"Replaced-":                        {Replacement: "new-of-Replaced-ann"},
		"NumericId-":                       {},
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
		"html200-":                         another(200, aPage),
	}
	for prefix, want := range tests {
		require.Equal(t, want, provider.send(t.Context(), messageTo(prefix+"ann")), prefix)
	}
	require.Equal(t, len(tests), simulator.Stats().Requests)
	require.Zero(t, simulator.Stats().TokenRequests)
}

func TestStrangeAnswersOfLegacy(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		status int
		body   string
		cut    bool
		want   handlers.Outcome
	}{
		{200, `{"success":1,"results":[{"message_id":"1:2"}]}`, false, handlers.Outcome{}},
		{200, `{"success":"1","failure":null,"results":[{"message_id":"1:2","registration_id":7,"more":{}}]}`, false, handlers.Outcome{}},
		{200, `{"results":[{"message_id":"1:2","registration_id":"new"}]}`, false, handlers.Outcome{Replacement: "new"}},
		{200, `{"results":[{"message_id":7,"registration_id":"n\u00e9w"}]}`, false, handlers.Outcome{Replacement: "néw"}},
		{200, `{"results":[{"message_id":"1:2","registration_id":""}]}`, false, handlers.Outcome{}},
		{200, `{"results":[{"message_id":"1:2","registration_id":["new"]}]}`, false, handlers.Outcome{}},
		{200, `{"results":[{"message_id":"1:2","registration_id":"` + strings.Repeat("x", 5000) + `"}]}`, false, handlers.Outcome{}},
		{200, `{"results":[{"error":"NotRegistered","registration_id":"new"}]}`, false, dropped(200, "NotRegistered")},
		{200, `{"results":[{"message_id":1}]}`, false, handlers.Outcome{}},
		{200, `{"results":[{"message_id":123456789012345678901234567890}]}`, false, handlers.Outcome{}},
		{200, `{"results":[{"message_id":-1.5e3,"error":null}]}`, false, handlers.Outcome{}},
		{200, `{"message_id":6177433633397011933}`, false, handlers.Outcome{}}, // to a topic
		{200, "\ufeff" + `{"results":[{"message_id":"1:2"}]}`, true, handlers.Outcome{}},
		{200, `{"results":[{"error":"NotRegistered","message_id":7}],"success":"none"}`, false, dropped(200, "NotRegistered")},
		{200, `{"error":"TopicsMessageRateExceeded"}`, false,
			with(refused(200, "TopicsMessageRateExceeded"), func(o *handlers.Outcome) { o.Verdict, o.RetryAfter = handlers.Retryable, time.Minute })},
		{200, `{"results":[{"error":"Surprise"}]}`, false, refused(200, "Surprise")},
		{400, "JSON_PARSING_ERROR", false, refused(400, "JSON_PARSING_ERROR")},
		{400, "", false, refused(400, "Bad Request")},
		{400, "<html></html>", false, another(400, aPage)},
		{400, "JSON_PA", true, another(400, brokenOff)},
		{200, `{"results":[{"err`, true, another(200, brokenOff)},
		{200, "", true, another(200, brokenOff)},
		{200, "", false, another(200, "without a body")},
	} {
		length := len(test.body)
		if test.cut {
			length++
		}
		answer := fmt.Sprintf("HTTP/1.1 %d Text\r\nContent-Length: %d\r\n\r\n%s", test.status, length, test.body)
		require.Equal(t, test.want, providerFor(t, Legacy, answerRaw(t, answer)).send(t.Context(), messageTo("ann")), "%d %s", test.status, test.body)
	}
	for _, body := range []string{
		`{"success":1}`, `{"results":[]}`, `{"results":[{}]}`, `{"results":[{},{}]}`, `{"results":[null]}`, `{"results":"NotRegistered"}`, `{"results":null}`,
		`{"results":[{"message_id":""}]}`, `{"results":[{"message_id":null}]}`, `{"results":[{"message_id":["1:2"]}]}`, `{"results":[{"message_id":true}]}`,
		`{"results":[{"message_id":"1:2","error":7}]}`, `{"results":[{"error":{}}]}`, `{"message_id":null}`, `{"name":"projects/p/messages/1"}`,
		`[{"message_id":"1:2"}]`, `"1:2"`, `Error=NotRegistered`, `id=1:2`,
	} {
		answer := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		require.Equal(t, another(200, body), providerFor(t, Legacy, answerRaw(t, answer)).send(t.Context(), messageTo("ann")), body)
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	date := func(from time.Duration) string { return time.Now().Add(from).UTC().Format(http.TimeFormat) }
	const sloppy = time.Minute // a date has whole seconds, and time passes on a busy machine
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
		require.Zero(t, ask(V1, 400, `{"error":{"status":"INVALID_ARGUMENT"}}`))
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
		body := fmt.Sprintf(`{"error":{"message":"Bad %s"}}`, secret)
		if strings.HasPrefix(secret, "key=") {
			body = "Bad " + secret
		}
		_, _ = fmt.Fprintf(connection, "HTTP/1.1 400 No\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		return false
	})
	require.Equal(t, "Bad Bearer [secret]", providerFor(t, V1, address).send(t.Context(), messageTo("ann")).ErrorMessage)
	require.Equal(t, "Bad key=[secret]", providerFor(t, Legacy, address).send(t.Context(), messageTo("ann")).ErrorMessage)
	require.True(t, strings.HasPrefix(secrets[0], "ya29."))
	require.Equal(t, serverKey, secrets[1])
}
