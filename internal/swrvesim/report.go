package swrvesim

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
)

// serveLedger writes {"dropped":n,"requests":[…]}, one request per line. Dropped
// counts the requests before the first one shown.
func (s *Simulator) serveLedger(w http.ResponseWriter, _ *http.Request) {
	requests := s.Ledger()
	dropped := 0
	if len(requests) > 0 {
		dropped = requests[0].Sequence - 1
	}
	w.Header().Set("Content-Type", jsonMediaType)
	// Write errors mean that the reader has gone.
	buffered := bufio.NewWriter(w)
	defer buffered.Flush()
	fmt.Fprintf(buffered, `{"dropped":%d,"requests":[`, dropped)
	encoder := json.NewEncoder(buffered)
	encoder.SetEscapeHTML(false)
	for i, request := range requests {
		if i > 0 {
			buffered.WriteByte(',')
		}
		if encoder.Encode(request) != nil {
			return
		}
	}
	buffered.WriteString("]}\n")
}

func (s *Simulator) serveStats(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", jsonMediaType)
	_ = json.NewEncoder(w).Encode(s.Stats())
}

func (s *Simulator) serveReset(w http.ResponseWriter, _ *http.Request) {
	s.Reset()
	w.WriteHeader(http.StatusNoContent)
}

// serveHealth answers as pushq does, for health checks.
func (s *Simulator) serveHealth(w http.ResponseWriter, _ *http.Request) {
	fmt.Fprintln(w, "ready")
}
