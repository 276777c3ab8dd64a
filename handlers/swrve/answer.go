package swrve

import (
	"bytes"
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"strings"

	"pushq/internal/exchange"
)

// An answer of Swrve is a JSON object with an integer code and a text, the message, as
// public clients of its Push API read it. They, and the service that pushq replaces, take
// any 2xx for a success, 202 too, and put up with a blank body. So a 2xx without a body is
// a success, and so is JSON that has other fields or fewer.

// messageOf is what an answer says to people. For a body of another form the text itself
// is the message.
func messageOf(answer exchange.Answer) string {
	if object, isObject := answer.Object(); isObject {
		if message := object.Text("message"); message != "" {
			return message
		}
	}
	return strings.TrimSpace(string(answer.Body))
}

// statusOf is the status that an answer of 2xx means: its own, or that of the error that its
// body names as its code. It is not known if Swrve cannot have said that.
func statusOf(answer exchange.Answer) (status int, known bool) {
	text := answer.Text()
	if len(text) == 0 || bytes.Equal(text, []byte("null")) {
		return answer.Status, !answer.Cut
	}
	parts, isList := exchange.ListOf(text)
	if !isList {
		parts = []json.RawMessage{text}
	}
	for _, part := range parts {
		object, isObject := exchange.Answer{Body: part}.Object()
		if !isObject || namesError(object) {
			return 0, false
		}
		code, isCode := codeOf(object)
		if !isCode {
			return 0, false
		}
		if code >= http.StatusBadRequest {
			return code, true
		}
	}
	return answer.Status, true
}

// namesError reports whether an object says in other words than Swrve's that something went
// wrong.
func namesError(object exchange.Object) bool {
	if object.Says("error") || object.Says("errors") {
		return true
	}
	success := object["success"]
	return len(success) > 0 && string(success) == "false"
}

// maxCode is the last status that there is.
const maxCode = 599

// codeOf is the code of an answer: a whole number, or a text that has one. Without a code it
// is 0. What no status can be is none: a code that is negative or too large, or no number.
func codeOf(object exchange.Object) (code int, isCode bool) {
	value := object["code"]
	if len(value) == 0 || string(value) == "null" {
		return 0, true
	}
	text := object.Text("code")
	if number, isNumber := object.Number("code"); isNumber {
		text = number.String()
	}
	number, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || number != math.Trunc(number) || number < 0 || number > maxCode {
		return 0, false
	}
	return int(number), true
}
