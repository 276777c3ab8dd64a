package swrvesim

import (
	"encoding/json"
	"net/http"

	"pushq/internal/simserver"
)

func (s *Simulator) serveLedger(w http.ResponseWriter, _ *http.Request) {
	simserver.WriteLedger(w, s.Ledger(), func(request Request) int { return request.Sequence })
}

func (s *Simulator) serveStats(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", jsonMediaType)
	_ = json.NewEncoder(w).Encode(s.Stats())
}

func (s *Simulator) serveReset(w http.ResponseWriter, _ *http.Request) {
	s.Reset()
	w.WriteHeader(http.StatusNoContent)
}
