package templatesim

import (
	"encoding/json"
	"maps"
	"net/http"
	"time"

	"pushq/internal/simserver"
)

// Request is what the ledger knows about one request for a template.
type Request struct {
	// Sequence numbers the arrivals from 1.
	Sequence  int       `json:"sequence"`
	ArrivedAt time.Time `json:"arrivedAt"`
	Code      string    `json:"code"`
	Language  string    `json:"language"`
	// TraceParent is the header of that name, empty if there was none.
	TraceParent string `json:"traceParent,omitempty"`
	// Status is the HTTP status of the answer; 0 while there is none, and for ever if the
	// connection broke before it.
	Status int `json:"status"`
}

// Stats are the totals since the start or the latest reset.
type Stats struct {
	Requests int `json:"requests"`
	// Answers counts finished requests by HTTP status, 0 for those without an answer.
	Answers map[int]int `json:"answers"`
	// InFlight counts requests without an answer now, PeakInFlight at the worst moment.
	InFlight     int `json:"inFlight"`
	PeakInFlight int `json:"peakInFlight"`
}

// books are everything that a reset forgets. The simulator's mutex guards them.
type books struct {
	size   int
	ledger []*Request
	stats  Stats
	// played counts, by code, how often trouble that is limited was asked for.
	played map[string]int
}

func newBooks(size int) *books {
	return &books{size: size, stats: Stats{Answers: map[int]int{}}, played: map[string]int{}}
}

func (b *books) add(code, language, traceParent string) *Request {
	b.stats.Requests++
	b.stats.InFlight++
	b.stats.PeakInFlight = max(b.stats.PeakInFlight, b.stats.InFlight)
	request := &Request{Sequence: b.stats.Requests, ArrivedAt: time.Now().UTC(), Code: code, Language: language, TraceParent: traceParent}
	b.ledger = append(b.ledger, request)
	if len(b.ledger) > b.size {
		b.ledger[0] = nil
		b.ledger = b.ledger[1:]
	}
	return request
}

// play says whether the trouble is to be made this time.
func (b *books) play(code string, asked trouble) bool {
	if asked.times == 0 && !asked.everyOther {
		return true
	}
	before := b.played[code]
	b.played[code]++
	return (asked.times == 0 || before < asked.times) && (!asked.everyOther || before%2 == 0)
}

func (b *books) finish(request *Request, status int) {
	request.Status = status
	b.stats.InFlight--
	b.stats.Answers[status]++
}

// Ledger returns the requests that have arrived, in order, the latest Config.LedgerSize of
// them.
func (s *Simulator) Ledger() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	requests := make([]Request, len(s.books.ledger))
	for place, request := range s.books.ledger {
		requests[place] = *request
	}
	return requests
}

// Stats returns the totals.
func (s *Simulator) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	stats := s.books.stats
	stats.Answers = maps.Clone(stats.Answers)
	return stats
}

// Reset forgets everything that was asked, requests in flight included, and begins
// scripted trouble anew.
func (s *Simulator) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.books = newBooks(s.config.LedgerSize)
}

func (s *Simulator) serveLedger(w http.ResponseWriter, _ *http.Request) {
	simserver.WriteLedger(w, s.Ledger(), func(request Request) int { return request.Sequence })
}

func (s *Simulator) serveStats(w http.ResponseWriter, _ *http.Request) { writeJSON(w, s.Stats()) }

func (s *Simulator) serveReset(w http.ResponseWriter, _ *http.Request) {
	s.Reset()
	w.WriteHeader(http.StatusNoContent)
}

// writeJSON ignores write errors: the reader has gone.
func writeJSON(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", jsonMediaType)
	_ = json.NewEncoder(w).Encode(value)
}
