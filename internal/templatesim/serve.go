package templatesim

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"pushq/internal/reset"
)

const (
	jsonMediaType = "application/json"
	htmlMediaType = "text/html; charset=utf-8"
)

func (s *Simulator) serveTemplate(w http.ResponseWriter, r *http.Request) {
	if !s.server.Enter() {
		reset.Connection(w)
		return
	}
	defer s.server.Leave()
	arrival := s.arrive(r.PathValue("code"), r.URL.Query().Get("language"), r.Header.Get("Traceparent"))

	// The books come first: who has the answer must find it in the ledger.
	if !s.wait(r, arrival.trouble) || arrival.trouble.ending == resets {
		s.finish(arrival, 0)
		reset.Connection(w)
		return
	}
	status, mediaType, body := s.answer(arrival)
	s.finish(arrival, status)
	if status >= 300 && status < 400 {
		w.Header().Set("Location", "/api/v1/templates/"+arrival.plain+"?"+r.URL.RawQuery)
	}
	w.Header().Set("Content-Type", mediaType)
	w.WriteHeader(status)
	_, _ = w.Write(body) // an error means that the caller has gone
}

// arrival is a request between its arrival and its end.
type arrival struct {
	books   *books
	request *Request
	trouble trouble
	plain   string // the code without the prefix that asks for trouble
}

// arrive enters a request into the books.
func (s *Simulator) arrive(code, language, traceParent string) *arrival {
	s.mu.Lock()
	defer s.mu.Unlock()
	books := s.books
	request := books.add(code, language, traceParent)
	asked, plain := troubleFor(s.trouble + code)
	if !books.play(code, asked) {
		asked = trouble{}
	}
	return &arrival{books: books, request: request, trouble: asked, plain: plain}
}

// wait returns true when it is time to answer, and false when nobody waits for an answer
// any more.
func (s *Simulator) wait(r *http.Request, asked trouble) bool {
	latency := s.config.Latency
	if asked.slow {
		latency += slowness
	}
	var due <-chan time.Time
	if asked.ending != hangs {
		due = time.After(latency)
	}
	return s.server.Wait(r, due)
}

// finish notes the end of a request. Status 0 means no answer.
func (s *Simulator) finish(arrival *arrival, status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	arrival.books.finish(arrival.request, status)
}

// answer has the code that was asked for, with its prefix: that is how a service would
// know the template.
func (s *Simulator) answer(arrival *arrival) (status int, mediaType string, body []byte) {
	asked, request := arrival.trouble, arrival.request
	template, found := s.templates[name{arrival.plain, request.Language}]
	switch {
	case asked.page:
		return asked.status, htmlMediaType, fmt.Appendf(nil, "<!DOCTYPE html>\n<html><head><title>%[1]d</title></head><body><h1>%[1]d %[2]s</h1></body></html>\n",
			asked.status, http.StatusText(asked.status))
	case asked.status != 0 && asked.status != http.StatusOK:
		return failure(asked.status, http.StatusText(asked.status))
	case asked.body != "" && asked.body[0] == '<':
		return http.StatusOK, htmlMediaType, []byte(asked.body)
	case asked.body != "":
		return http.StatusOK, jsonMediaType, []byte(asked.body)
	case !found:
		return failure(http.StatusNotFound, fmt.Sprintf("no template %q in language %q", arrival.plain, request.Language))
	}
	template.Code = request.Code
	if asked.otherCode {
		template.Code = "another"
	}
	if asked.text != nil {
		template.Content.Body = asked.text()
	}
	body, _ = json.Marshal(template) // texts and a number always encode
	return http.StatusOK, jsonMediaType, body
}

func failure(status int, text string) (int, string, []byte) {
	body, _ := json.Marshal(map[string]string{"error": text})
	return status, jsonMediaType, body
}
