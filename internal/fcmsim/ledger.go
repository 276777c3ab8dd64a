package fcmsim

import (
	"net/http"
	"time"

	"pushq/internal/simserver"
)

// Request is what the ledger knows about one message.
type Request struct {
	// Sequence numbers the arrivals of a round from 1.
	Sequence int `json:"sequence"`
	// ArrivedAt is the host's clock on entry of the handler, in UTC and microseconds.
	ArrivedAt time.Time `json:"arrivedAt"`
	// InFlight counts the requests without an answer on arrival, this one included.
	InFlight int `json:"inFlight"`
	// API is v1 or legacy.
	API string `json:"api"`
	// TraceParent is the header of that name, empty if there was none.
	TraceParent string `json:"traceParent,omitempty"`
	Message
	// Status is the HTTP status of the answer; 0 while there is none, and for ever
	// if the connection broke, on either side, before the answer.
	Status int `json:"status"`
	// Delivered says whether the message reaches the device. That is decided on
	// arrival: it may be true before there is an answer, and without one.
	Delivered bool `json:"delivered"`
}

func (r *round) add(request *Request) {
	r.requests = append(r.requests, request)
	if len(r.requests) > ledgerSize {
		r.requests[0] = nil
		r.requests = r.requests[1:]
		r.dropped++
	}
}

// ledgerPart is how many requests are copied at a time, so that arrivals need
// not wait for the whole ledger.
const ledgerPart = 500

// Ledger returns the messages that have arrived in this round, in order, the latest
// 200,000 of them. Older ones were dropped, as the first sequence number tells.
func (s *Simulator) Ledger() []Request {
	s.mutex.Lock()
	round := s.round
	last := round.stats.Requests
	s.mutex.Unlock()

	var requests []Request
	for next := 1; next <= last; {
		s.mutex.Lock()
		from := max(next-1-round.dropped, 0)
		to := min(last-round.dropped, from+ledgerPart)
		for ; from < to; from++ {
			requests = append(requests, *round.requests[from])
		}
		s.mutex.Unlock()
		if len(requests) == 0 {
			break
		}
		next = requests[len(requests)-1].Sequence + 1
	}
	return requests
}

func (s *Simulator) serveLedger(w http.ResponseWriter, _ *http.Request) {
	simserver.WriteLedger(w, s.Ledger(), func(request Request) int { return request.Sequence })
}

func (s *Simulator) serveStats(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, s.Stats())
}

func (s *Simulator) serveReset(w http.ResponseWriter, _ *http.Request) {
	s.Reset()
	w.WriteHeader(http.StatusNoContent)
}
