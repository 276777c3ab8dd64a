package fcmsim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// v1 is Firebase's HTTP v1 API.
type v1 struct {
	simulator *Simulator
	project   string
}

func (p v1) success(sequence int) answer {
	return jsonAnswer(http.StatusOK, map[string]string{"name": fmt.Sprintf("projects/%s/messages/0:%d", p.project, sequence)})
}

// v1Body is the body of an error. Details are those of Google's APIs.
func v1Body(status int, canonical, message string, details ...any) answer {
	body := map[string]any{"code": status, "message": message, "status": canonical}
	if len(details) > 0 {
		body["details"] = details
	}
	return jsonAnswer(status, map[string]any{"error": body})
}

func fcmError(code string) any {
	return map[string]any{"@type": "type.googleapis.com/google.firebase.fcm.v1.FcmError", "errorCode": code}
}

func badRequest(field, description string) any {
	return map[string]any{
		"@type":           "type.googleapis.com/google.rpc.BadRequest",
		"fieldViolations": []map[string]string{{"field": field, "description": description}},
	}
}

// quotaFailure names what has had too many messages, such as a device.
func quotaFailure(subject, description string) any {
	return map[string]any{
		"@type":      "type.googleapis.com/google.rpc.QuotaFailure",
		"violations": []map[string]string{{"subject": subject, "description": description}},
	}
}

func apnsError(status int, reason string) any {
	return map[string]any{"@type": "type.googleapis.com/google.firebase.fcm.v1.ApnsError", "statusCode": status, "reason": reason}
}

// v1Failures are the answers by Firebase's codes, and of seven more that share a code.
var v1Failures = map[string]answer{
	"INVALID_ARGUMENT": v1Body(400, "INVALID_ARGUMENT", "Request contains an invalid argument.", fcmError("INVALID_ARGUMENT")),
	"MALFORMED_TOKEN":  v1Body(400, "INVALID_ARGUMENT", "The registration token is not a valid FCM registration token", fcmError("INVALID_ARGUMENT")),
	"BAD_FIELD": v1Body(400, "INVALID_ARGUMENT", "Invalid value at 'message.data[0].value' (TYPE_STRING), 1", fcmError("INVALID_ARGUMENT"),
		badRequest("message.data[0].value", "Invalid value at 'message.data[0].value' (TYPE_STRING), 1")),
	"APNS_UNREGISTERED": v1Body(400, "INVALID_ARGUMENT", "Request contains an invalid argument.", fcmError("INVALID_ARGUMENT"),
		apnsError(http.StatusGone, "Unregistered")),
	"THIRD_PARTY_AUTH_ERROR": v1Body(401, "UNAUTHENTICATED", "Auth error from APNS or Web Push Service", fcmError("THIRD_PARTY_AUTH_ERROR"),
		apnsError(http.StatusForbidden, "InvalidProviderToken")),
	"SENDER_ID_MISMATCH": v1Body(403, "PERMISSION_DENIED", "SenderId mismatch", fcmError("SENDER_ID_MISMATCH")),
	"UNREGISTERED_ODD":   oddDetails(404, "NOT_FOUND", "UNREGISTERED"),
	"UNREGISTERED":       v1Body(404, "NOT_FOUND", "Requested entity was not found.", fcmError("UNREGISTERED")),
	"QUOTA_EXCEEDED":     v1Body(429, "RESOURCE_EXHAUSTED", "Quota exceeded for quota metric 'Messages'.", fcmError("QUOTA_EXCEEDED")),
	"PROJECT_QUOTA": v1Body(429, "RESOURCE_EXHAUSTED", "Quota exceeded for quota metric 'Messages'.", fcmError("QUOTA_EXCEEDED"),
		quotaFailure("project:1234567890", "Message rate exceeded")),
	"DEVICE_QUOTA": v1Body(429, "RESOURCE_EXHAUSTED", "Device quota exceeded.", fcmError("QUOTA_EXCEEDED"),
		quotaFailure("device:0", "Device message rate exceeded")),
	"TOPIC_QUOTA": v1Body(429, "RESOURCE_EXHAUSTED", "Topic quota exceeded.", fcmError("QUOTA_EXCEEDED"),
		quotaFailure("topic:news", "Topic message rate exceeded")),
	"INTERNAL":    v1Body(500, "INTERNAL", "Internal error encountered.", fcmError("INTERNAL")),
	"UNAVAILABLE": v1Body(503, "UNAVAILABLE", "The service is currently unavailable.", fcmError("UNAVAILABLE")),
}

func (v1) failure(code string) (answer, bool) {
	failure, known := v1Failures[code]
	return failure, known
}

func (v1) variant(string, string, int) (answer, bool) { return answer{}, false }

// oddDetails has Firebase's code among details of unexpected types.
func oddDetails(status int, canonical, code string) answer {
	return v1Body(status, canonical, "Requested entity was not found.", 7, nil, map[string]any{"@type": 7, "errorCode": []string{"x"}}, fcmError(code))
}

// canonical are Google's names of the statuses.
var canonical = map[int]string{
	400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND",
	429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED",
}

func (v1) bare(status int) answer {
	name := canonical[status]
	if name == "" {
		name = "UNKNOWN"
	}
	return v1Body(status, name, http.StatusText(status))
}

func (v1) name() string { return "v1" }

func (v1) tooMany() answer { return v1Failures["QUOTA_EXCEEDED"] }

func (s *Simulator) serveV1(w http.ResponseWriter, r *http.Request) {
	s.serveMessage(w, r, v1{simulator: s, project: r.PathValue("project")})
}

func (p v1) read(r *http.Request, body []byte) (Message, *answer) {
	message, invalid := readV1(body)
	refuse := func(answer answer) (Message, *answer) { return message, &answer }
	switch known := p.simulator.config.Project; {
	case r.PathValue("call") != "messages:send", known != "" && p.project != known:
		return refuse(p.bare(http.StatusNotFound))
	case !p.simulator.authorised(r):
		return refuse(v1Body(http.StatusUnauthorized, "UNAUTHENTICATED", "Request had invalid authentication credentials."))
	case invalid != nil:
		return refuse(v1Body(http.StatusBadRequest, "INVALID_ARGUMENT", invalid.problem,
			fcmError("INVALID_ARGUMENT"), badRequest(invalid.field, invalid.problem)))
	}
	return message, nil
}

// An invalidField is what is wrong with a message.
type invalidField struct{ field, problem string }

// readV1 reads as much as it can. It takes all that the API has; only messages to one
// token are of use here.
func readV1(text []byte) (Message, *invalidField) {
	var body struct {
		Message struct {
			Token        string `json:"token"`
			Topic        string `json:"topic"`
			Condition    string `json:"condition"`
			FID          string `json:"fid"`
			Notification struct {
				Title string `json:"title"`
				Body  string `json:"body"`
				Image string `json:"image"`
			} `json:"notification"`
			Data       map[string]string `json:"data"`
			Android    json.RawMessage   `json:"android"`
			APNS       json.RawMessage   `json:"apns"`
			Webpush    json.RawMessage   `json:"webpush"`
			FCMOptions json.RawMessage   `json:"fcm_options"`
		} `json:"message"`
		ValidateOnly bool `json:"validate_only"`
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(&body)
	got := body.Message
	message := Message{Token: got.Token, Title: got.Notification.Title, Body: got.Notification.Body, Data: got.Data}
	if err == nil && decoder.More() {
		err = errors.New("more than one JSON value")
	}
	if err != nil {
		var wrongType *json.UnmarshalTypeError
		if errors.As(err, &wrongType) {
			return message, &invalidField{wrongType.Field, "Invalid value: a " + wrongType.Value}
		}
		return message, &invalidField{"", err.Error()}
	}
	targets := 0
	for _, target := range []string{got.Token, got.Topic, got.Condition, got.FID} {
		if target != "" {
			targets++
		}
	}
	if targets != 1 {
		return message, &invalidField{"message", "Exactly one of token, topic, condition and fid must be set."}
	}
	return message, message.check()
}

// Message is what a request asks to be delivered.
type Message struct {
	Token string            `json:"token"`
	Title string            `json:"title"`
	Body  string            `json:"body"`
	Data  map[string]string `json:"data,omitempty"`
}

const maxPayload = 4096

// check finds what is wrong with a message of either protocol.
func (m Message) check() *invalidField {
	size := 0
	for _, field := range [][2]string{{"title", m.Title}, {"body", m.Body}} {
		if field[1] != "" {
			size += len(field[0]) + len(field[1])
		}
	}
	for key, value := range m.Data {
		if key == "from" || strings.HasPrefix(key, "gcm") || strings.HasPrefix(key, "google") {
			return &invalidField{dataField, "Invalid data payload key: " + key}
		}
		size += len(key) + len(value)
	}
	if size > maxPayload {
		return &invalidField{"message", fmt.Sprintf("Android message is too big: %d bytes", size)}
	}
	return nil
}

const dataField = "message.data"
