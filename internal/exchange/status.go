package exchange

import "net/http"

// Success reports whether a status is 2xx.
func Success(status int) bool { return status >= 200 && status < 300 }

// MayPass reports whether a status says that the same request may get another answer
// later. 408 and 425 (RFC 9110, RFC 8470) are as a rule of what stands in front of a
// service. 429 is for the caller to tell: it is about the pace.
func MayPass(status int) bool {
	return status == http.StatusRequestTimeout || status == http.StatusTooEarly || status >= http.StatusInternalServerError
}
