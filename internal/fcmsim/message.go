package fcmsim

import (
	"io"
	"net/http"
	"time"

	"pushq/internal/reset"
)

const (
	maxRequestBytes = 64 << 10
	bodyTimeout     = 10 * time.Second
)

// arrival is a request between its arrival and its end.
type arrival struct {
	round    *round
	request  *Request
	latency  time.Duration
	overRate bool
}

func (s *Simulator) serveMessage(w http.ResponseWriter, r *http.Request, protocol protocol) {
	if !s.server.Enter() {
		reset.Connection(w)
		return
	}
	defer s.server.Leave()
	arrival := s.arrive(protocol.name(), r.Header.Get("Traceparent"))
	message, refusal := protocol.read(r, readBody(w, r))
	outcome := s.decide(arrival, message, refusal, protocol)
	inTime := s.waitFor(r, arrival.latency, outcome)
	// The books come first: who has the answer must find it in the ledger, and must
	// not be counted as in flight any more.
	if !inTime || outcome.ending == resets {
		s.finish(arrival, 0)
		reset.Connection(w)
		return
	}
	s.finish(arrival, outcome.answer.status)
	write(w, outcome.answer)
}

// readBody reads a body of bounded size within bounded time, as far as it comes.
func readBody(w http.ResponseWriter, r *http.Request) []byte {
	// Not every ResponseWriter has deadlines; without one the read just waits.
	controller := http.NewResponseController(w)
	_ = controller.SetReadDeadline(time.Now().Add(bodyTimeout))
	body, _ := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequestBytes))
	_ = controller.SetReadDeadline(time.Time{})
	return body
}

// arrive enters a request into the books. The clock is read under the mutex, so that
// arrivals are in the order of their times.
func (s *Simulator) arrive(api, traceParent string) *arrival {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.inFlight++
	now, round := time.Now(), s.round
	round.stats.Requests++
	round.stats.PeakInFlight = max(round.stats.PeakInFlight, s.inFlight)
	inSecond := round.second.Add(now.Sub(s.began))
	request := &Request{
		Sequence:  round.stats.Requests,
		ArrivedAt: now.UTC().Truncate(time.Microsecond),
		InFlight:  s.inFlight,
		API:       api,

		TraceParent: traceParent,
	}
	round.add(request)
	return &arrival{
		round: round, request: request, latency: s.config.Latency,
		overRate: s.config.Rate > 0 && inSecond > s.config.Rate,
	}
}

// decide notes a message and what becomes of it. From here on a good one is delivered,
// whatever happens to the connection.
func (s *Simulator) decide(arrival *arrival, message Message, refusal *answer, protocol protocol) outcome {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	arrival.request.Message = message
	var decided outcome
	switch {
	case arrival.overRate:
		arrival.round.stats.RateLimited++
		decided = refused(protocol.tooMany())
	case refusal != nil:
		decided = refused(*refusal)
	default:
		decided = arrival.round.play(s.outcome+message.Token, arrival.request.Sequence, protocol)
	}
	if decided.delivered {
		arrival.request.Delivered = true
		arrival.round.stats.Delivered++
	}
	return decided
}

// waitFor returns true when it is time to answer, and false when nobody waits for
// an answer any more.
func (s *Simulator) waitFor(r *http.Request, latency time.Duration, outcome outcome) bool {
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
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.inFlight--
	arrival.request.Status = status
	arrival.round.stats.Answers[status]++
}
