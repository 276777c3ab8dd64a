package fcmsim

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// legacy is the protocol before HTTP v1.
type legacy struct{ simulator *Simulator }

func (legacy) name() string { return "legacy" }

type legacyResult struct {
	MessageID      any    `json:"message_id,omitempty"` // a text, or a number
	RegistrationID string `json:"registration_id,omitempty"`
	Error          string `json:"error,omitempty"`
}

func legacyBody(result legacyResult) answer {
	body := struct {
		MulticastID  int            `json:"multicast_id"`
		Success      int            `json:"success"`
		Failure      int            `json:"failure"`
		CanonicalIDs int            `json:"canonical_ids"`
		Results      []legacyResult `json:"results"`
	}{MulticastID: 1, Success: 1, Results: []legacyResult{result}}
	if result.Error != "" {
		body.Success, body.Failure = 0, 1
	}
	if result.RegistrationID != "" {
		body.CanonicalIDs = 1
	}
	return jsonAnswer(http.StatusOK, body)
}

func (legacy) success(sequence int) answer {
	return legacyBody(legacyResult{MessageID: fmt.Sprintf("0:%d", sequence)})
}

// legacyFailures are the errors that come within a 200.
var legacyFailures = []string{
	"NotRegistered", "InvalidRegistration", "MissingRegistration", "MismatchSenderId", "InvalidPackageName",
	"MessageTooBig", "InvalidDataKey", "InvalidTtl", "InvalidParameters", "InvalidApnsCredential",
	"Unavailable", "InternalServerError", "DeviceMessageRateExceeded", "TopicsMessageRateExceeded", "DeprecatedApi",
}

func (legacy) failure(code string) (answer, bool) {
	return legacyBody(legacyResult{Error: code}), slices.Contains(legacyFailures, code)
}

func (legacy) variant(name, token string, sequence int) (answer, bool) {
	switch name {
	case "Replaced":
		return legacyBody(legacyResult{MessageID: fmt.Sprintf("0:%d", sequence), RegistrationID: "new-of-" + token}), true
	case "NumericId":
		return legacyBody(legacyResult{MessageID: sequence}), true
	default:
		return answer{}, false
	}
}

func (legacy) bare(status int) answer {
	return answer{status: status, mediaType: "text/plain; charset=utf-8", body: []byte(http.StatusText(status))}
}

func (l legacy) tooMany() answer { return l.bare(http.StatusTooManyRequests) }

func (s *Simulator) serveLegacy(w http.ResponseWriter, r *http.Request) {
	s.serveMessage(w, r, legacy{s})
}

func (l legacy) read(r *http.Request, body []byte) (Message, *answer) {
	message, err := readLegacy(body)
	refuse := func(answer answer) (Message, *answer) { return message, &answer }
	key, found := strings.CutPrefix(r.Header.Get("Authorization"), "key=")
	known := l.simulator.config.ServerKey
	switch {
	case !found || key == "" || known != "" && key != known:
		return refuse(page(http.StatusUnauthorized))
	case err != nil:
		return refuse(answer{status: http.StatusBadRequest, mediaType: "text/plain; charset=utf-8", body: []byte(err.Error())})
	case message.Token == "":
		return refuse(legacyBody(legacyResult{Error: "MissingRegistration"}))
	}
	if invalid := message.check(); invalid != nil {
		failure := "MessageTooBig"
		if invalid.field == dataField {
			failure = "InvalidDataKey"
		}
		return refuse(legacyBody(legacyResult{Error: failure}))
	}
	return message, nil
}

// readLegacy takes data of any JSON, as the protocol does.
func readLegacy(text []byte) (Message, error) {
	var body struct {
		To           string
		Notification struct{ Title, Body string }
		Data         map[string]json.RawMessage
	}
	if err := json.Unmarshal(text, &body); err != nil {
		return Message{}, fmt.Errorf("JSON_PARSING_ERROR: %w", err)
	}
	message := Message{Token: body.To, Title: body.Notification.Title, Body: body.Notification.Body}
	for key, value := range body.Data {
		if message.Data == nil {
			message.Data = map[string]string{}
		}
		var text string
		if json.Unmarshal(value, &text) != nil {
			text = string(value)
		}
		message.Data[key] = text
	}
	return message, nil
}
