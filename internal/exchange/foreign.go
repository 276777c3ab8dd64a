package exchange

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
)

// The rule for every service that pushq asks: an answer that the service itself cannot have
// given says that the service cannot be reached, whatever its status. It is a success for
// no push and the end of none; it may pass, so that the same request is made again, and it
// counts for the service's circuit breaker. Who has given it stands in front of the service
// or in its place: a proxy with a page, a sign-in, another server at that address. So does
// a body without its end.
//
// What the service itself can say is known to its client, which goes by the body (Object)
// and not by the media type: services that name it wrongly are more than those that are
// imitated in all but that.

// Foreign says of an answer whose it cannot be, and what it is instead. Its text is there as
// a whole: it may quote the request, and of a secret that was cut off nobody would find the
// rest to take it out.
func (a Answer) Foreign(whose string) string {
	what := fmt.Sprintf("the answer is not %s: %d ", whose, a.Status)
	switch text := a.Text(); {
	case a.Cut:
		return what + "with a body that broke off or is too long"
	case len(text) == 0:
		return what + "without a body"
	case a.Page():
		return what + "with an HTML page"
	case a.Header.Get("Content-Encoding") != "":
		return what + fmt.Sprintf("in the encoding %.40q, which was not asked for", a.Header.Get("Content-Encoding"))
	case bytes.ContainsFunc(text, func(char rune) bool { return char < ' ' && !strings.ContainsRune("\t\r\n", char) }):
		return what + "with a body that is no text"
	default:
		return what + string(text)
	}
}

// Page reports whether the answer is HTML or XML, as of proxies.
func (a Answer) Page() bool { return bytes.HasPrefix(a.Text(), []byte("<")) }

// Plain is the text of an answer of which no more is known: that of its status, if the body
// has none or is a page.
func (a Answer) Plain() string {
	if text := a.Text(); len(text) > 0 && !a.Page() {
		return string(text)
	}
	return http.StatusText(a.Status)
}
