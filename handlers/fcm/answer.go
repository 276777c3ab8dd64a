package fcm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
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
// mend something, and the others had better wait.
func misconfigured(status int, message string) handlers.Outcome {
	outcome := refusal(status, message)
	outcome.Alarm, outcome.ServiceFailed = true, true
	return outcome
}

// throttled is the outcome of an answer that asks everybody to be slower.
func (p *Provider) throttled(answer exchange.Answer, message string) handlers.Outcome {
	outcome := refusal(answer.Status, message)
	outcome.Verdict, outcome.Throttled = handlers.Retryable, true
	outcome.RetryAfter = p.pause(answer, quotaPause)
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

// notFirebase is the outcome of a success that somebody else must have answered.
func notFirebase(status int) handlers.Outcome {
	outcome := misconfigured(status, "the answer is not Firebase's: see fcm.url (it may have been delivered)")
	outcome.MaybeDelivered = true
	return outcome
}

// Codes and types of HTTP v1 (firebase.google.com/docs/reference/fcm/rest/v1/ErrorCode).
const (
	invalidArgument     = "INVALID_ARGUMENT"
	senderIDMismatch    = "SENDER_ID_MISMATCH"
	thirdPartyAuthError = "THIRD_PARTY_AUTH_ERROR"
	unregistered        = "UNREGISTERED"

	fcmErrorType  = "type.googleapis.com/google.firebase.fcm.v1.FcmError"
	apnsErrorType = "type.googleapis.com/google.firebase.fcm.v1.ApnsError"

	// malformedToken is how Firebase tells a bad token from other bad arguments.
	malformedToken = "not a valid FCM registration token"
)

// v1Error is what HTTP v1 says of an error.
type v1Error struct {
	code     string // Firebase's own, "" if there is none
	deadApns bool   // Apple does not know the token any more
	message  string // for people
}

// readV1 reads the body of an error. Proxies and load balancers answer with pages.
func readV1(answer exchange.Answer) v1Error {
	var body struct {
		Error struct {
			Message string `json:"message"`
			Status  string `json:"status"`
			Details []struct {
				Type            string `json:"@type"`
				ErrorCode       string `json:"errorCode"`
				StatusCode      int    `json:"statusCode"` // of ApnsError
				Reason          string `json:"reason"`
				FieldViolations []struct {
					Field       string `json:"field"`
					Description string `json:"description"`
				} `json:"fieldViolations"`
			} `json:"details"`
		} `json:"error"`
	}
	if json.Unmarshal(answer.Body, &body) != nil {
		return v1Error{message: textOf(answer)}
	}
	read := v1Error{message: body.Error.Message}
	for _, detail := range body.Error.Details {
		switch detail.Type {
		case fcmErrorType:
			read.code = detail.ErrorCode
		case apnsErrorType:
			read.deadApns = read.deadApns || detail.StatusCode == http.StatusGone && detail.Reason == "Unregistered"
			read.message += fmt.Sprintf("; Apple says %d %s", detail.StatusCode, detail.Reason)
		}
		for _, violation := range detail.FieldViolations {
			read.message += fmt.Sprintf("; %s: %s", violation.Field, violation.Description)
		}
	}
	switch {
	case read.code != "":
		read.message = read.code + ": " + read.message
	case body.Error.Status != "":
		read.message = body.Error.Status + ": " + read.message
	case read.message == "":
		read.message = textOf(answer)
	}
	return read
}

// tokenRefused reports whether the access token is not taken. With a code of Firebase's
// a 401 is about something else.
func tokenRefused(answer exchange.Answer) bool {
	return answer.Status == http.StatusUnauthorized && readV1(answer).code == ""
}

// namesMessage reports whether a success is Firebase's, which gives each message a name.
// One that broke off may have had it.
func namesMessage(answer exchange.Answer) bool {
	if answer.Cut {
		return !isPage(answer)
	}
	var body struct {
		Name string `json:"name"`
	}
	return json.Unmarshal(answer.Body, &body) == nil && body.Name != ""
}

// judgeV1 is the table of HTTP v1. No verdict comes from the status alone where
// Firebase has a code: a 404 without one is a wrong project or somebody else's page, not
// a dead token. If it may have had one that broke off, the next answer tells.
func (p *Provider) judgeV1(answer exchange.Answer) handlers.Outcome {
	status := answer.Status
	if success(status) {
		if !namesMessage(answer) {
			return notFirebase(status)
		}
		return handlers.Outcome{Verdict: handlers.Delivered}
	}
	said := readV1(answer)
	outcome := refusal(status, said.message)
	switch {
	case status == http.StatusTooManyRequests:
		return p.throttled(answer, said.message)
	case exchange.MayPass(status):
		return p.inTrouble(answer, said.message)
	case answer.Cut && said.code == "" && !isPage(answer):
		return p.inTrouble(answer, "the answer broke off")
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
	case success(status):
		return p.judgeResult(answer)
	case status == http.StatusTooManyRequests:
		return p.throttled(answer, textOf(answer))
	case exchange.MayPass(status):
		return p.inTrouble(answer, textOf(answer))
	case status == http.StatusBadRequest:
		return refusal(status, textOf(answer))
	case status == http.StatusUnauthorized:
		return misconfigured(status, "fcm.serverKey is not accepted: "+textOf(answer))
	default:
		return misconfigured(status, textOf(answer))
	}
}

func (p *Provider) judgeResult(answer exchange.Answer) handlers.Outcome {
	var body struct {
		Results []struct {
			MessageID string `json:"message_id"`
			Error     string `json:"error"`
		} `json:"results"`
	}
	if answer.Cut {
		outcome := p.inTrouble(answer, "the answer broke off (it may have been delivered)")
		outcome.MaybeDelivered = true
		return outcome
	}
	if json.Unmarshal(answer.Body, &body) != nil || len(body.Results) != 1 {
		return notFirebase(answer.Status)
	}
	result := body.Results[0]
	outcome := refusal(answer.Status, result.Error)
	switch result.Error {
	case "":
		if result.MessageID == "" {
			return notFirebase(answer.Status)
		}
		return handlers.Outcome{Verdict: handlers.Delivered}
	case notRegistered, invalidRegistration:
		outcome.DropToken = true
	case invalidApnsCredential:
		outcome.Alarm = true // for devices of Apple
	case deprecatedAPI:
		return misconfigured(answer.Status, result.Error+": fcm.url does not take the legacy protocol any more, set fcm.mode to v1")
	case unavailable, internalServerError:
		return p.inTrouble(answer, result.Error)
	case deviceRateExceeded, topicsRateExceeded: // too many for this device, not for all
		outcome.Verdict = handlers.Retryable
		outcome.RetryAfter = p.pause(answer, quotaPause)
	}
	return outcome
}

func success(status int) bool { return status >= 200 && status < 300 }

// textOf is the text of an answer that has no other form. Of a page, its status says
// more.
func textOf(answer exchange.Answer) string {
	text := strings.TrimSpace(string(answer.Body))
	if text == "" || isPage(answer) {
		return http.StatusText(answer.Status)
	}
	return text
}

// isPage reports whether the answer is HTML, as of proxies.
func isPage(answer exchange.Answer) bool {
	return bytes.HasPrefix(bytes.TrimSpace(answer.Body), []byte("<"))
}
