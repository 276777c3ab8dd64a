package swrvesim

import "fmt"

// SetLatency changes the time that the simulator takes to answer requests that
// arrive from now on. At most a minute more than Config.Latency can be waited
// for.
func (s *Simulator) SetLatency(latency Latency) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.config.Latency = latency
}

// SetOutcome makes every good push that arrives from now on end as if its user
// began with the prefix, see outcomeFor; "" ends that. A prefix that asks for
// nothing is an error.
func (s *Simulator) SetOutcome(prefix string) error {
	if prefix != "" && script.FindString(prefix) != prefix {
		return fmt.Errorf("outcome %q: use a prefix that asks for one, such as %q", prefix, "503-")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.outcome = prefix
	return nil
}
