package swrve

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
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

// retryAfter reads the header's two forms, seconds or a date (RFC 9110, section
// 10.2.3). Anything else, and what lies in the past, is 0.
func retryAfter(header string, now time.Time) time.Duration {
	header = strings.TrimSpace(header)
	if header == "" {
		return 0
	}
	seconds, err := strconv.ParseUint(header, 10, 31)
	if err == nil || errors.Is(err, strconv.ErrRange) { // then seconds is the largest value
		return time.Duration(seconds) * time.Second
	}
	if date, err := http.ParseTime(header); err == nil {
		return max(date.Sub(now), 0)
	}
	return 0
}
