package swrvesim

import (
	"maps"
	"time"

	"pushq/internal/slidingsecond"
)

// Stats are the totals of a round: since the start or the latest reset.
type Stats struct {
	// Requests counts arrivals at POST /push.
	Requests int `json:"requests"`
	// Delivered counts requests whose push reaches the user; see Request.Delivered.
	Delivered int `json:"delivered"`
	// Answers counts finished requests by HTTP status, 0 for those without an answer.
	Answers map[int]int `json:"answers"`
	// RateLimited counts requests refused with 429 because they came too fast.
	// Scripted 429s are in Answers only.
	RateLimited int `json:"rateLimited"`
	// LargestSecond is the largest number of arrivals in any sliding second, refused ones included.
	LargestSecond int `json:"largestSecond"`
	// InFlight counts requests without an answer now, PeakInFlight at the worst
	// moment. Requests of an earlier round that are still open count in both.
	InFlight     int `json:"inFlight"`
	PeakInFlight int `json:"peakInFlight"`
	// Connections counts TCP connections opened, to any path.
	Connections int `json:"connections"`
	// WorstLagMillis is the longest time by which the simulator's own timer was
	// late. A measurement with a lag of several milliseconds says little.
	WorstLagMillis float64 `json:"worstLagMillis"`
	// LedgerDropped counts requests that the ledger no longer holds.
	LedgerDropped int `json:"ledgerDropped"`
}

// round is everything that a reset forgets. The simulator's mutex guards it.
type round struct {
	ledger ledger
	second slidingsecond.Count
	stats  Stats
	// played counts, by user, how often a limited scripted outcome was used.
	played map[string]int
}

func newRound(ledgerSize, inFlight int) *round {
	return &round{
		ledger: ledger{size: ledgerSize},
		stats:  Stats{Answers: map[int]int{}, PeakInFlight: inFlight},
		played: map[string]int{},
	}
}

func (r *round) totals(inFlight int) Stats {
	totals := r.stats
	totals.Answers = maps.Clone(r.stats.Answers)
	totals.LargestSecond = r.second.Largest()
	totals.InFlight = inFlight
	totals.LedgerDropped = r.ledger.dropped
	return totals
}

// play returns the outcome for a request of a user, and uses up one of those
// that are limited in number.
func (r *round) play(user string) outcome {
	asked := outcomeFor(user)
	if asked.times == 0 {
		return asked
	}
	if r.played[user] == asked.times {
		return delivered
	}
	r.played[user]++
	return asked
}

func (r *round) noteLag(lag time.Duration) {
	r.stats.WorstLagMillis = max(r.stats.WorstLagMillis, float64(lag.Microseconds())/1000)
}
