package fcmsim

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// outcome is what becomes of a message.
type outcome struct {
	ending ending
	answer answer
	// immediate leaves out the latency.
	immediate bool
	delivered bool
	// times limits the outcome to the first messages of each device; later ones are
	// delivered. 0 means always.
	times int
}

type ending int

const (
	answers ending = iota
	hangs
	resets
)

// answer is a whole HTTP answer.
type answer struct {
	status     int
	mediaType  string
	body       []byte
	retryAfter string // seconds, "" for none
}

// refused is immediate.
func refused(answer answer) outcome { return outcome{answer: answer, immediate: true} }

// A protocol is one of the two forms of the API.
type protocol interface {
	// name is how the ledger calls it.
	name() string
	// read reads a message, as far as possible, and says how it is refused.
	read(r *http.Request, body []byte) (Message, *answer)
	// tooMany answers when messages come too fast.
	tooMany() answer
	// success answers for a message that is delivered.
	success(sequence int) answer
	// failure answers with one of the protocol's codes; false means it has none such.
	failure(code string) (answer, bool)
	// variant answers for a message that is delivered in another form of that name; false
	// means that the protocol has none such.
	variant(name, token string, sequence int) (answer, bool)
	// bare answers with a status and no code.
	bare(status int) answer
}

var script = regexp.MustCompile(
	`^(ok-then-)?(?:([2-5]\d\d)|html([2-5]\d\d)|(hang)|(reset)|([A-Za-z_]+?))(?:after(\d{1,5}))?(?:x([1-9]\d{0,4}))?-`)

// outcomeFor reads the outcome that a device's token asks for by its prefix:
//
//	CODE-       Firebase's error of that name: UNREGISTERED-, QUOTA_EXCEEDED- and so on in
//	            HTTP v1, NotRegistered-, Unavailable- and so on, in a 200, in the legacy
//	            protocol; see v1Failures and legacyFailures
//	Replaced-   in the legacy protocol, delivered with another registration_id: "new-of-"
//	            and the token
//	NumericId-  in the legacy protocol, delivered with a number as message_id
//	NNN-        that status from 200 to 599, without a code of Firebase's
//	htmlNNN-    that status with an HTML page, as from a proxy
//	hang-       no answer until the caller goes away or the simulator stops; no latency
//	reset-      the connection is reset instead of an answer
//	ok-then-…-  any of the above, but the message is delivered first
//	…afterS-    the same with Retry-After: S (seconds); once, unless xM follows
//	…xM-        only the first M messages to this very token, then they are delivered:
//	            UNAVAILABLEx2-ann, 429after1x3-ann, hangx1-ann, ok-then-503x1-ann
//
// Any other token is delivered.
func outcomeFor(token string, sequence int, protocol protocol) outcome {
	good := outcome{answer: protocol.success(sequence), delivered: true}
	match := script.FindStringSubmatch(token)
	if match == nil {
		return good
	}
	okThen, status, html, hang, broken, code, after, times := match[1], match[2], match[3], match[4], match[5], match[6], match[7], match[8]

	var asked outcome
	switch {
	case status != "":
		number, _ := strconv.Atoi(status)
		asked.answer = protocol.bare(number)
		asked.delivered = number < 300
		if asked.delivered {
			asked.answer = good.answer
			asked.answer.status = number
		}
	case html != "":
		number, _ := strconv.Atoi(html)
		asked.answer = page(number)
	case hang != "":
		asked.ending = hangs
	case broken != "":
		asked.ending = resets
	default:
		failure, known := protocol.failure(code)
		if !known {
			failure, known = protocol.variant(code, token, sequence)
			asked.delivered = known
		}
		if !known {
			return good
		}
		asked.answer = failure
	}
	asked.delivered = asked.delivered || okThen != ""
	asked.answer.retryAfter = after
	if after != "" {
		asked.times = 1
	}
	if times != "" {
		asked.times, _ = strconv.Atoi(times)
	}
	return asked
}

// play returns the outcome for a message, and uses up one of those that are limited in
// number.
func (r *round) play(token string, sequence int, protocol protocol) outcome {
	asked := outcomeFor(token, sequence, protocol)
	if asked.times == 0 {
		return asked
	}
	if r.played[token] == asked.times {
		return outcome{answer: protocol.success(sequence), delivered: true}
	}
	r.played[token]++
	return asked
}

// SetOutcome makes every good message that arrives from now on end as if its token
// began with the prefix, see outcomeFor; "" ends that. A prefix that asks for nothing is
// an error.
func (s *Simulator) SetOutcome(prefix string) error {
	asks := func(protocol protocol) bool {
		asked := outcomeFor(prefix, 0, protocol)
		return !asked.delivered || strings.HasPrefix(prefix, "ok-then-")
	}
	if prefix != "" && (script.FindString(prefix) != prefix || !asks(v1{}) && !asks(legacy{})) {
		return fmt.Errorf("outcome %q: use a prefix that asks for one, such as %q", prefix, "503-")
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.outcome = prefix
	return nil
}

// SetLatency changes the time that the simulator takes to answer messages that arrive
// from now on.
func (s *Simulator) SetLatency(latency time.Duration) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.config.Latency = latency
}

func page(status int) answer {
	return answer{
		status: status, mediaType: "text/html; charset=utf-8",
		body: fmt.Appendf(nil, "<html><head><title>%[1]d %[2]s</title></head><body><h1>%[1]d %[2]s</h1></body></html>\n", status, http.StatusText(status)),
	}
}

func jsonAnswer(status int, body any) answer {
	text, _ := json.Marshal(body) // texts and numbers always encode
	return answer{status: status, mediaType: "application/json; charset=UTF-8", body: text}
}

// write ignores errors: the caller has gone, and nobody else would want to know.
func write(w http.ResponseWriter, answer answer) {
	if answer.retryAfter != "" {
		w.Header().Set("Retry-After", answer.retryAfter)
	}
	w.Header().Set("Content-Type", answer.mediaType)
	w.WriteHeader(answer.status)
	_, _ = w.Write(answer.body)
}

func writeJSON(w http.ResponseWriter, status int, body any) { write(w, jsonAnswer(status, body)) }
