package exchange

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// RetryAfter reads the header of that name in its two forms, seconds or a date (RFC
// 9110, section 10.2.3). Anything else, and what lies in the past, is 0.
func RetryAfter(header http.Header, now time.Time) time.Duration {
	text := strings.TrimSpace(header.Get("Retry-After"))
	if text == "" {
		return 0
	}
	seconds, err := strconv.ParseUint(text, 10, 31)
	if err == nil || errors.Is(err, strconv.ErrRange) { // then seconds is the largest value
		return time.Duration(seconds) * time.Second
	}
	if date, err := http.ParseTime(text); err == nil {
		return max(date.Sub(now), 0)
	}
	return 0
}
