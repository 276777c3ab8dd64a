package templatesim

import (
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// trouble is what goes wrong with an answer.
type trouble struct {
	ending ending
	// status is the HTTP status, if it is not 200.
	status int
	// page answers that status with an HTML page.
	page bool
	// body is the answer instead of the template's JSON, unless empty.
	body string
	// text is the template's body instead of its own, unless empty.
	text func() string
	// otherCode answers with another template's code.
	otherCode bool
	slow      bool
	// times limits the trouble to the first requests for each code; 0 means always.
	times int
	// everyOther leaves every second request for a code without trouble.
	everyOther bool
}

type ending int

const (
	answers ending = iota
	hangs
	resets
)

const (
	slowness  = 3 * time.Second
	hugeBytes = 10 << 20
)

var troubles = map[string]trouble{
	"notfound":    {status: http.StatusNotFound},
	"unavailable": {status: http.StatusServiceUnavailable},
	"flaky":       {status: http.StatusServiceUnavailable, everyOther: true},
	"html":        {body: "<!DOCTYPE html>\n<html><head><title>Sign in</title></head><body><h1>Sign in</h1></body></html>\n"},
	"shape":       {body: `{"status":"success","data":{"subject":"Welcome","text":"Hello {{name}}"}}`},
	"cut":         {body: `{"id":"cut","code":"`},
	"other":       {otherCode: true},
	"huge":        {text: func() string { return strings.Repeat("x", hugeBytes) }},
	"unclosed":    {text: func() string { return "Hello {{name" }},
	"unnamed":     {text: func() string { return "Hello {{ }}" }},
	"nested":      {text: func() string { return "Hello {{{name}}}" }},
	"undeclared":  {text: func() string { return "Hello {{undeclared}}" }},
	"slow":        {slow: true},
	"hang":        {ending: hangs},
	"reset":       {ending: resets},
}

var script = regexp.MustCompile(`^(?:([a-z]+?)|(html)?([2-5]\d\d))(?:x([1-9]\d{0,4}))?-`)

// troubleFor reads the trouble that a code asks for by its prefix, and returns the code
// without it:
//
//	notfound-     404
//	unavailable-  503
//	flaky-        503 for every other request for this very code, the first included
//	NNN-          that status from 200 to 599; a 3xx points to the template
//	htmlNNN-      that status with an HTML page, as from a proxy
//	html-         200 with an HTML page
//	shape-        200 with JSON of another shape
//	cut-          200 with JSON that has no end
//	other-        200 with a template that has another code
//	huge-         200 with a text of 10 MiB
//	unclosed-     a text with {{ and no }}
//	unnamed-      a text with {{ }}
//	nested-       a text with {{{name}}}
//	undeclared-   a text with a variable that the template does not declare
//	slow-         the answer comes 3 s later
//	hang-         no answer until the caller goes away or the simulator stops
//	reset-        the connection is reset instead of an answer
//	…xM-          only the first M requests for this very code: unavailablex2-welcome
//
// Any other code is answered well.
func troubleFor(code string) (asked trouble, plain string) {
	match := script.FindStringSubmatch(code)
	if match == nil {
		return trouble{}, code
	}
	prefix, kind, page, status, times := match[0], match[1], match[2], match[3], match[4]
	asked, known := troubles[kind]
	if !known && kind != "" {
		return trouble{}, code
	}
	if status != "" {
		asked.status, _ = strconv.Atoi(status)
		asked.page = page != ""
	}
	if times != "" {
		asked.times, _ = strconv.Atoi(times)
	}
	return asked, strings.TrimPrefix(code, prefix)
}
