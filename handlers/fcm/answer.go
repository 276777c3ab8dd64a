package fcm

import (
	"cmp"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"pushq/handlers"
	"pushq/internal/exchange"
	"pushq/tasks"
)

// quotaPause is how long Firebase wants to be left alone that has refused a message as
// one too many without saying for how long.
const quotaPause = time.Minute

// pause is what the answer asks to wait, or unasked.
func (p *Provider) pause(answer exchange.Answer, unasked time.Duration) time.Duration {
	asked := exchange.RetryAfter(answer.Header, time.Now())
	if asked == 0 {
		asked = unasked
	}
	return min(asked, p.MaxRetryAfter)
}

// refusal is the outcome of an answer that is none of the better ones.
func refusal(status int, message string) handlers.Outcome {
	return handlers.Outcome{Verdict: handlers.Permanent, ErrorType: tasks.ErrorFCM, ErrorCode: status, ErrorMessage: message}
}

// misconfigured is the outcome of an answer that every push would get: somebody has to
// mend something, and all had better wait.
func misconfigured(status int, message string) handlers.Outcome {
	outcome := refusal(status, message)
	outcome.Alarm, outcome.ServiceFailed, outcome.RefusesPushq = true, true, true
	return outcome
}

// throttled is the outcome of an answer that asks to be slower, and does not say whether
// that is about everybody.
func (p *Provider) throttled(answer exchange.Answer, message string) handlers.Outcome {
	outcome := refusal(answer.Status, message)
	outcome.Verdict, outcome.Throttled = handlers.Retryable, true
	outcome.RetryAfter = p.pause(answer, quotaPause)
	return outcome
}

// tooManyForTarget is the outcome of an answer that asks to be slower with one device or
// topic: the service works, and the others need not wait.
func (p *Provider) tooManyForTarget(answer exchange.Answer, message string) handlers.Outcome {
	outcome := refusal(answer.Status, message)
	outcome.Verdict, outcome.RetryAfter = handlers.Retryable, p.pause(answer, quotaPause)
	return outcome
}

// inTrouble is the outcome of an answer of a service that does not work at the moment.
func (p *Provider) inTrouble(answer exchange.Answer, message string) handlers.Outcome {
	outcome := refusal(answer.Status, message)
	outcome.Verdict, outcome.ServiceFailed = handlers.Retryable, true
	outcome.RetryAfter = p.pause(answer, 0)
	// A message may come twice that was sent again after a 503.
	outcome.MaybeDelivered = answer.Status == http.StatusServiceUnavailable
	return outcome
}

// foreign is the outcome of an answer that Firebase cannot have given. Who has sent a success
// may have passed the message on.
func (p *Provider) foreign(answer exchange.Answer) handlers.Outcome {
	whose := "Firebase's, see fcm.url"
	if exchange.Success(answer.Status) {
		whose += " (it may have been delivered)"
	}
	outcome := p.inTrouble(answer, answer.Foreign(whose))
	outcome.MaybeDelivered, outcome.Alarm = exchange.Success(answer.Status), !answer.Cut
	outcome.RefusesPushq = refusedByAnother(answer)
	return outcome
}

// refusedByAnother reports whether somebody between pushq and Firebase, such as a proxy, lets
// nothing through, or fcm.url leads elsewhere.
func refusedByAnother(answer exchange.Answer) bool {
	switch answer.Status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound:
		return !answer.Cut && (answer.Page() || len(answer.Text()) == 0)
	default:
		return false
	}
}

// Codes and types of HTTP v1 (firebase.google.com/docs/reference/fcm/rest/v1/ErrorCode).
const (
	invalidArgument     = "INVALID_ARGUMENT"
	senderIDMismatch    = "SENDER_ID_MISMATCH"
	thirdPartyAuthError = "THIRD_PARTY_AUTH_ERROR"
	unregistered        = "UNREGISTERED"

	fcmErrorType     = "type.googleapis.com/google.firebase.fcm.v1.FcmError"
	apnsErrorType    = "type.googleapis.com/google.firebase.fcm.v1.ApnsError"
	quotaFailureType = "type.googleapis.com/google.rpc.QuotaFailure"

	// malformedToken is how Firebase tells a bad token from other bad arguments.
	malformedToken = "not a valid FCM registration token"
)

// v1Error is what HTTP v1 says of an error.
type v1Error struct {
	code     string // Firebase's own, "" if there is none
	deadApns bool   // Apple does not know the token any more
	message  string // for people
	// ofTarget means that what is exceeded is the quota of the one who was to get the message,
	// and not the project's.
	ofTarget bool
}

// readV1 reads the body of an error: what is known of it. It is not Firebase's, but of a
// proxy or load balancer, if it does not say what went wrong in one of Firebase's fields.
func readV1(answer exchange.Answer) (read v1Error, firebases bool) {
	body, _ := answer.Object()
	said := body.Object("error")
	read.message = said.Text("message")
	var exceeded []exchange.Object
	for _, detail := range said.Objects("details") {
		switch detail.Text("@type") {
		case fcmErrorType:
			read.code = cmp.Or(read.code, detail.Text("errorCode"))
		case apnsErrorType:
			status, reason := detail["statusCode"], detail.Text("reason")
			read.deadApns = read.deadApns || string(status) == strconv.Itoa(http.StatusGone) && reason == "Unregistered"
			read.message += fmt.Sprintf("; Apple says %s %s", status, reason)
		case quotaFailureType:
			exceeded = append(exceeded, detail.Objects("violations")...)
		}
		for _, violation := range detail.Objects("fieldViolations") {
			read.message += fmt.Sprintf("; %s: %s", violation.Text("field"), violation.Text("description"))
		}
	}
	for _, violation := range exceeded {
		read.message += fmt.Sprintf("; %s: %s", violation.Text("subject"), violation.Text("description"))
	}
	read.ofTarget = len(exceeded) > 0 && !slices.ContainsFunc(exceeded, func(violation exchange.Object) bool { return !quotaOfTarget(violation) })
	status := said.Text("status")
	_, numbered := said.Number("code")
	firebases = read.code != "" || read.message != "" || status != "" || numbered
	switch {
	case read.code != "":
		read.message = read.code + ": " + read.message
	case status != "":
		read.message = status + ": " + read.message
	case read.message == "":
		read.message = answer.Plain()
	}
	return read, firebases
}

// targets are those whose own quota a message may exceed: "device:…", "Topic quota exceeded".
var targets = regexp.MustCompile(`(?i)\b(device|topic)s?\b`)

// quotaOfTarget reports whether a violation of a QuotaFailure is about a device or topic.
// Google names such quotas, but gives no list of their names. A project may have any name.
func quotaOfTarget(violation exchange.Object) bool {
	subject := violation.Text("subject")
	if strings.HasPrefix(strings.ToLower(subject), "project") {
		return false
	}
	return targets.MatchString(subject) || targets.MatchString(violation.Text("description"))
}

// tokenRefused reports whether the access token is not taken. With a code of Firebase's
// a 401 is about something else.
func tokenRefused(answer exchange.Answer) bool {
	if answer.Status != http.StatusUnauthorized {
		return false
	}
	said, _ := readV1(answer)
	return said.code == ""
}

// messageName is what Firebase calls a message that it has taken
// (firebase.google.com/docs/reference/fcm/rest/v1/projects.messages).
var messageName = regexp.MustCompile(`^projects/[^/]+/messages/.`)

// namesMessage reports whether a success is Firebase's, which gives each message a name.
func namesMessage(answer exchange.Answer) bool {
	body, _ := answer.Object()
	return messageName.MatchString(body.Text("name")) && !body.Says("error")
}

// judgeV1 is the table of HTTP v1. No verdict comes from the status alone where
// Firebase has a code: a 404 without one is a wrong project or somebody else's page, not
// a dead token.
func (p *Provider) judgeV1(answer exchange.Answer) handlers.Outcome {
	status := answer.Status
	if exchange.Success(status) {
		if !namesMessage(answer) {
			return p.foreign(answer)
		}
		return handlers.Outcome{Verdict: handlers.Delivered}
	}
	said, firebases := readV1(answer)
	outcome := refusal(status, said.message)
	switch {
	case status == http.StatusTooManyRequests && said.ofTarget:
		return p.tooManyForTarget(answer, said.message)
	case status == http.StatusTooManyRequests:
		return p.throttled(answer, said.message)
	case exchange.MayPass(status):
		return p.inTrouble(answer, said.message)
	case !firebases:
		return p.foreign(answer)
	case status == http.StatusBadRequest:
		outcome.DropToken = said.deadApns ||
			p.DropMalformed && said.code == invalidArgument && strings.Contains(said.message, malformedToken)
	case status == http.StatusForbidden && said.code == senderIDMismatch:
		outcome.DropToken = true
	case status == http.StatusNotFound && said.code == unregistered:
		outcome.DropToken = true
	case status == http.StatusUnauthorized && said.code == thirdPartyAuthError:
		outcome.Alarm = true // for devices of Apple, or browsers
	default:
		return misconfigured(status, said.message)
	}
	return outcome
}

// Errors of the legacy protocol that are more than a refusal.
const (
	notRegistered         = "NotRegistered"
	invalidRegistration   = "InvalidRegistration"
	invalidApnsCredential = "InvalidApnsCredential"
	unavailable           = "Unavailable"
	internalServerError   = "InternalServerError"
	deviceRateExceeded    = "DeviceMessageRateExceeded"
	topicsRateExceeded    = "TopicsMessageRateExceeded"
	deprecatedAPI         = "DeprecatedApi"
)

// judgeLegacy is the table of the legacy protocol, which says most within a 200.
func (p *Provider) judgeLegacy(answer exchange.Answer) handlers.Outcome {
	status := answer.Status
	switch {
	case exchange.Success(status):
		return p.judgeResult(answer)
	case status == http.StatusTooManyRequests:
		return p.throttled(answer, answer.Plain())
	case exchange.MayPass(status):
		return p.inTrouble(answer, answer.Plain())
	case status == http.StatusBadRequest && (answer.Cut || answer.Page()): // its own is a text
		return p.foreign(answer)
	case status == http.StatusBadRequest:
		return refusal(status, answer.Plain())
	case status == http.StatusUnauthorized:
		return misconfigured(status, "fcm.serverKey is not accepted: "+answer.Plain())
	default:
		return misconfigured(status, answer.Plain())
	}
}

// legacyResult finds what became of the message: the one result of a message to a device, or
// the answer itself of one to a topic.
func legacyResult(answer exchange.Answer) (result exchange.Object, found bool) {
	body, found := answer.Object()
	if _, listed := body["results"]; !listed {
		return body, found
	}
	results, _ := exchange.ListOf(body["results"])
	if len(results) != 1 {
		return nil, false
	}
	return exchange.Answer{Body: results[0]}.Object()
}

// identifies reports whether a result has the id of a message that was taken: a text, or a
// number as of a topic.
func identifies(result exchange.Object) bool {
	_, isNumber := result.Number("message_id")
	return isNumber || result.Text("message_id") != ""
}

// maxToken is far more than any token has, in bytes.
const maxToken = 4 << 10

// replacement is the token that Firebase has for the device from now on, "" if it names none.
func replacement(result exchange.Object) string {
	token := result.Text("registration_id")
	if len(token) > maxToken {
		return ""
	}
	return token
}

func (p *Provider) judgeResult(answer exchange.Answer) handlers.Outcome {
	result, found := legacyResult(answer)
	failure := result.Text("error")
	if !found || failure == "" && (result.Says("error") || !identifies(result)) {
		return p.foreign(answer)
	}
	outcome := refusal(answer.Status, failure)
	switch failure {
	case "":
		return handlers.Outcome{Verdict: handlers.Delivered, Replacement: replacement(result)}
	case notRegistered, invalidRegistration:
		outcome.DropToken = true
	case invalidApnsCredential:
		outcome.Alarm = true // for devices of Apple
	case deprecatedAPI:
		return misconfigured(answer.Status, failure+": fcm.url does not take the legacy protocol any more, set fcm.mode to v1")
	case unavailable, internalServerError:
		return p.inTrouble(answer, failure)
	case deviceRateExceeded, topicsRateExceeded:
		return p.tooManyForTarget(answer, failure)
	}
	return outcome
}
