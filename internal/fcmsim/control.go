package fcmsim

import (
	"net/http"
	"time"
)

// The calls below are for those who make the simulator misbehave while it runs.

func (s *Simulator) serveSetOutcome(w http.ResponseWriter, r *http.Request) {
	answerControl(w, s.SetOutcome(r.FormValue("prefix")))
}

func (s *Simulator) serveSetToken(w http.ResponseWriter, r *http.Request) {
	var life time.Duration
	if text := r.FormValue("life"); text != "" {
		parsed, err := time.ParseDuration(text)
		if err != nil {
			answerControl(w, err)
			return
		}
		life = parsed
	}
	answerControl(w, s.SetToken(r.FormValue("fault"), life))
}

func (s *Simulator) serveRevoke(w http.ResponseWriter, _ *http.Request) {
	s.Revoke()
	answerControl(w, nil)
}

func answerControl(w http.ResponseWriter, err error) {
	if err != nil {
		writeJSON(w, http.StatusBadRequest, map[string]string{"message": err.Error()})
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
