package faults

import (
	"slices"
	"time"
)

// latencies are the times from POST to Firebase of the messages that were posted in a time, the
// shortest first.
func (w *fcmWorld) latencies(postings []posting, from, to time.Time) []time.Duration {
	arrived := make(map[string]time.Time)
	for _, request := range w.Firebase.Ledger() {
		if _, again := arrived[request.Token]; !again {
			arrived[request.Token] = request.ArrivedAt
		}
	}
	return latencies(postings, from, to, arrived)
}

// swrveLatencies is the same for the pushes to Swrve.
func (w *world) swrveLatencies(postings []posting, from, to time.Time) []time.Duration {
	arrived := make(map[string]time.Time)
	for _, request := range w.Swrve.Ledger() {
		if _, again := arrived[request.User]; !again {
			arrived[request.User] = request.ArrivedAt
		}
	}
	return latencies(postings, from, to, arrived)
}

func latencies(postings []posting, from, to time.Time, arrived map[string]time.Time) (took []time.Duration) {
	for _, posting := range postings {
		if posting.posted.After(from) && posting.posted.Before(to) {
			took = append(took, arrived[posting.user].Sub(posting.posted))
		}
	}
	slices.Sort(took)
	return took
}

// percentile is the time that so many of a hundred did not exceed.
func percentile(sorted []time.Duration, percent int) time.Duration {
	return sorted[(len(sorted)*percent+99)/100-1].Round(time.Millisecond)
}
