package metrics

import (
	"net/http"
	"strconv"
)

const (
	codeSuccess = "2xx"
	codeNone    = "none"
	codeOther   = "other"
)

// codeOf is the label of a status: the number of those that have a name, for
// others only their class, so that no provider makes up labels without end.
func codeOf(status int) string {
	switch {
	case status == 0:
		return codeNone
	case http.StatusText(status) != "":
		return strconv.Itoa(status)
	case status >= 100 && status <= 599:
		return strconv.Itoa(status/100) + "xx"
	default:
		return codeOther
	}
}
