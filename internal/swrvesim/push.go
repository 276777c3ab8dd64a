package swrvesim

import (
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"time"
	"unicode/utf8"

	"pushq/internal/reset"
)

const (
	maxBodyBytes   = 64 << 10
	bodyTimeout    = 10 * time.Second
	formMediaType  = "application/x-www-form-urlencoded"
	jsonMediaType  = "application/json"
	htmlAnswerForm = "<html><head><title>%[1]d %[2]s</title></head><body><h1>%[1]d %[2]s</h1></body></html>\n"
)

// arrival is a request between its arrival and its end.
type arrival struct {
	round    *round
	request  *Request
	latency  time.Duration
	overRate bool
}

func (s *Simulator) servePush(w http.ResponseWriter, r *http.Request) {
	if !s.server.Enter() {
		reset.Connection(w)
		return
	}
	defer s.server.Leave()

	arrival := s.arrive()
	fields, refusal := readFields(w, r)
	outcome := s.decide(arrival, fields, refusal)
	inTime := s.wait(r, arrival.latency, outcome)
	// The books come first: who has the answer must find it in the ledger, and must
	// not be counted as in flight any more.
	if !inTime || outcome.ending == resets {
		s.finish(arrival, 0)
		reset.Connection(w)
		return
	}
	s.finish(arrival, outcome.status)
	writeOutcome(w, outcome)
}

// arrive enters a request into the books. The clock is read under the mutex, so that
// arrivals are in the order of their times.
func (s *Simulator) arrive() *arrival {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inFlight++

	now := time.Now()
	elapsed := now.Sub(s.began)
	round := s.round
	round.stats.Requests++
	round.stats.PeakInFlight = max(round.stats.PeakInFlight, s.inFlight)
	inSecond := round.second.Add(elapsed)
	request := &Request{
		Sequence:        round.stats.Requests,
		ArrivedAt:       now.UTC().Truncate(time.Microsecond),
		MonotonicMicros: elapsed.Microseconds(),
		InFlight:        s.inFlight,
	}
	round.ledger.add(request)
	return &arrival{
		round:    round,
		request:  request,
		latency:  s.config.Latency.draw(s.random),
		overRate: s.config.Rate > 0 && inSecond > s.config.Rate,
	}
}

// decide notes the fields of a request and what becomes of it. From here on a
// good push is delivered, whatever happens to the connection.
func (s *Simulator) decide(arrival *arrival, fields fields, refusal *outcome) outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	round := arrival.round
	round.ledger.describe(arrival.request, fields)

	var decided outcome
	switch {
	case arrival.overRate:
		round.stats.RateLimited++
		decided = refused(http.StatusTooManyRequests, "Rate Limit Exceeded")
	case refusal != nil:
		decided = *refusal
	case len(s.keys) > 0 && !s.keys[fields.pushKey]:
		decided = refused(http.StatusForbidden, "Unknown push_key")
	default:
		decided = round.play(s.outcome + fields.user)
	}
	if decided.echo {
		decided.answer.Message = "Rejected: " + fields.encode()
	}
	if decided.delivered {
		arrival.request.Delivered = true
		round.stats.Delivered++
	}
	return decided
}

// wait returns true when it is time to answer, and false when nobody waits for
// an answer any more.
func (s *Simulator) wait(r *http.Request, latency time.Duration, outcome outcome) bool {
	if outcome.immediate {
		return true
	}
	var due <-chan time.Time
	if outcome.ending != hangs {
		timer := time.NewTimer(latency)
		defer timer.Stop()
		due = timer.C
	}
	return s.server.Wait(r, due)
}

// finish takes a request out of those in flight. Status 0 means no answer.
func (s *Simulator) finish(arrival *arrival, status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inFlight--
	arrival.request.Status = status
	arrival.round.stats.Answers[status]++
}

// fields are the decoded form fields of a request.
type fields struct {
	pushKey, user, message, test string
	other                        url.Values
	traceParent                  string // of the headers
}

func (f fields) encode() string {
	return url.Values{"push_key": {f.pushKey}, "user": {f.user}, "message": {f.message}}.Encode()
}

// readFields decodes body and query as far as possible; the body's value comes
// first where both have a field. A refusal says why the request is not good.
func readFields(w http.ResponseWriter, r *http.Request) (fields, *outcome) {
	// Not every ResponseWriter has deadlines; without one the read just waits.
	controller := http.NewResponseController(w)
	_ = controller.SetReadDeadline(time.Now().Add(bodyTimeout))
	r.Body = http.MaxBytesReader(w, r.Body, maxBodyBytes)
	err := r.ParseForm()
	_ = controller.SetReadDeadline(time.Time{})

	form := r.Form
	take := func(name string) string {
		values := form[name]
		if len(values) == 0 {
			return ""
		}
		if len(values) == 1 {
			delete(form, name)
		} else {
			form[name] = values[1:]
		}
		return values[0]
	}
	read := fields{pushKey: take("push_key"), user: take("user"), message: take("message"), test: take("test"), traceParent: r.Header.Get("Traceparent")}
	if len(form) > 0 {
		read.other = form
	}

	refuse := func(status int, message string) (fields, *outcome) {
		refusal := refused(status, message)
		return read, &refusal
	}
	if contentType := r.Header.Get("Content-Type"); contentType != "" {
		if mediaType, _, _ := mime.ParseMediaType(contentType); mediaType != formMediaType {
			return refuse(http.StatusBadRequest, "Content-Type must be "+formMediaType)
		}
	}
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return refuse(http.StatusRequestEntityTooLarge, "Request Entity Too Large")
	case err != nil:
		return refuse(http.StatusBadRequest, "Malformed form")
	case read.pushKey == "":
		return refuse(http.StatusBadRequest, "Missing push_key")
	case read.user == "":
		return refuse(http.StatusBadRequest, "Missing user")
	case !utf8.ValidString(read.user) || !utf8.ValidString(read.message):
		return refuse(http.StatusBadRequest, "Malformed UTF-8")
	}
	return read, nil
}

func writeOutcome(w http.ResponseWriter, outcome outcome) {
	if outcome.retryAfter != "" {
		w.Header().Set("Retry-After", outcome.retryAfter)
	}
	if outcome.status >= 300 && outcome.status < 400 {
		w.Header().Set("Location", "/push")
	}
	switch said := outcome.answer; outcome.shape {
	case asPage:
		writeBody(w, outcome.status, "text/html; charset=utf-8", fmt.Appendf(nil, htmlAnswerForm, said.Code, said.Message))
	case asError:
		writeJSON(w, outcome.status, map[string]string{"error": said.Message})
	case asText:
		writeJSON(w, outcome.status, map[string]string{"code": strconv.Itoa(said.Code), "message": said.Message})
	case empty:
		w.WriteHeader(outcome.status)
	case cut:
		body, _ := json.Marshal(said)
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		writeBody(w, outcome.status, jsonMediaType, body[:len(body)/2])
	default:
		writeJSON(w, outcome.status, said)
	}
}

func writeJSON(w http.ResponseWriter, status int, value any) {
	body, _ := json.Marshal(value) // texts and numbers always encode
	writeBody(w, status, jsonMediaType, body)
}

// writeBody ignores write errors: the caller has gone, and nobody else would want to know.
func writeBody(w http.ResponseWriter, status int, mediaType string, body []byte) {
	w.Header().Set("Content-Type", mediaType)
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
