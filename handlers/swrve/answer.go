package swrve

import (
	"encoding/json"
	"strings"
)

// readBody reads the two fields of Swrve's answers. For a body of another form
// the text itself is the message.
func readBody(body []byte) (code int, message string) {
	var answer struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	}
	if json.Unmarshal(body, &answer) == nil && (answer.Code != 0 || answer.Message != "") {
		return answer.Code, answer.Message
	}
	return 0, strings.TrimSpace(string(body))
}
