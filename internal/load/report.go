package load

import (
	"fmt"
	"io"
	"time"

	"pushq/tasks"
)

// Report is what a run has measured.
type Report struct {
	Threads int `json:"threads"`
	Pushes  int `json:"pushes"` // asked for

	Accepted    int     `json:"accepted"`
	Unavailable int     `json:"unavailable"` // answered 503
	Failed      int     `json:"failed"`      // any other answer, or none
	PerSecond   float64 `json:"acceptedPerSecond"`
	// Receiving is the time of accepted POSTs, seen by the caller.
	Receiving *Summary `json:"receivingMillis"`

	// States counts the pushes by the last state in which they were seen.
	States   map[tasks.State]int `json:"states"`
	NotEnded int                 `json:"notEnded"`
	// Provider is the time of requests that reached the provider, or may have, as
	// recorded by the workers.
	Provider        *Summary `json:"providerMillis"`
	StartsPerSecond float64  `json:"startsPerSecond"`
	LargestSecond   int      `json:"largestSecond"`
	RateLimited     int      `json:"rateLimited"` // answered 429

	// The first of each, for people.
	FirstFailure    string `json:"firstFailure,omitempty"`
	FirstUnreadable string `json:"firstUnreadable,omitempty"`
}

func (r *run) report() Report {
	report := Report{
		Threads: r.Threads, Pushes: r.Pushes,
		Accepted: len(r.ids), Unavailable: r.unavailable, Failed: r.failed,
		Receiving: summarize(r.receiving),
		States:    r.states, NotEnded: r.notEnded(),
	}
	if r.receivingTime > 0 {
		report.PerSecond = float64(len(r.ids)) / r.receivingTime.Seconds()
	}
	if r.firstFailure != nil {
		report.FirstFailure = r.firstFailure.Error()
	}
	if r.firstUnread != nil {
		report.FirstUnreadable = r.firstUnread.Error()
	}
	var starts []time.Time
	var took []time.Duration
	for _, request := range r.requests {
		starts = append(starts, request.startedAt)
		took = append(took, request.took)
		if request.rateLimited {
			report.RateLimited++
		}
	}
	report.Provider = summarize(took)
	report.StartsPerSecond, report.LargestSecond = pace(starts)
	return report
}

// WriteTable prints the table of the original load test, in Markdown as there,
// and what was counted.
func (r Report) WriteTable(out io.Writer) {
	const columns = "| %-18s | %9s | %9s |\n"
	fmt.Fprintf(out, columns, "Milliseconds", "Receiving", "Provider")
	fmt.Fprintln(out, "|--------------------|----------:|----------:|")
	for _, row := range []struct {
		name  string
		value func(*Summary) float64
	}{
		{"50th percentile", func(s *Summary) float64 { return s.P50 }},
		{"75th percentile", func(s *Summary) float64 { return s.P75 }},
		{"95th percentile", func(s *Summary) float64 { return s.P95 }},
		{"98th percentile", func(s *Summary) float64 { return s.P98 }},
		{"99th percentile", func(s *Summary) float64 { return s.P99 }},
		{"99.9th percentile", func(s *Summary) float64 { return s.P999 }},
		{"Min", func(s *Summary) float64 { return s.Min }},
		{"Mean", func(s *Summary) float64 { return s.Mean }},
		{"Standard deviation", func(s *Summary) float64 { return s.Deviation }},
		{"Max", func(s *Summary) float64 { return s.Max }},
	} {
		fmt.Fprintf(out, columns, row.name, cell(r.Receiving, row.value), cell(r.Provider, row.value))
	}

	fmt.Fprintf(out, "\n%d threads: %d of %d accepted, %d answered 503, %d failed; %.0f accepted a second\n",
		r.Threads, r.Accepted, r.Pushes, r.Unavailable, r.Failed, r.PerSecond)
	if r.FirstFailure != "" {
		fmt.Fprintln(out, "  the first that was not accepted:", r.FirstFailure)
	}
	if len(r.States) > 0 || r.NotEnded > 0 {
		for _, state := range tasks.States() {
			if count := r.States[state]; count > 0 {
				fmt.Fprintf(out, "%d %s, ", count, state)
			}
		}
		fmt.Fprintf(out, "%d not ended\n", r.NotEnded)
	}
	if r.FirstUnreadable != "" {
		fmt.Fprintln(out, "  the first that could not be read back:", r.FirstUnreadable)
	}
	if r.Provider != nil {
		fmt.Fprintf(out, "%d requests to the provider: %.1f starts a second, %d in the fullest second, %d answered 429\n",
			r.Provider.Count, r.StartsPerSecond, r.LargestSecond, r.RateLimited)
	}
}

func cell(summary *Summary, value func(*Summary) float64) string {
	if summary == nil {
		return "-"
	}
	return fmt.Sprintf("%.1f", value(summary))
}
