package main

import (
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// A report is what is printed.
type report struct {
	Facts   []fact   `json:"facts"`
	Results []result `json:"results"`
	// Notes are sentences that belong below the table.
	Notes []string `json:"notes"`
}

const (
	quickNote    = "A quick run has one round of tiny sizes: it judges nothing, and its values mean nothing."
	verdictsNote = "Verdicts: holds; does not hold (the median misses what is promised, and the command ends with an error); " +
		"not available (it could not be measured: an error, too); not judged (the run was too short); " +
		"shown only (nothing is promised, or not beside this baseline)."
)

// shortSoakNote is empty if the soak is long enough.
func shortSoakNote(duration time.Duration) string {
	if duration >= soakJudged {
		return ""
	}
	return fmt.Sprintf("A soak of less than %g minutes says nothing about memory, and does not judge it: records are kept for one minute, and until then Redis grows by design.", soakJudged.Minutes())
}

func interruptedNote(finished, chosen int) string {
	return fmt.Sprintf("Interrupted: %d of %d comparisons had finished.", finished, chosen)
}

// busyNote warns of a machine that did something else, given the averages of
// /proc/loadavg; it is empty if there is nothing to say.
func busyNote(averages string) string {
	var lastMinute float64
	if _, err := fmt.Sscan(averages, &lastMinute); err != nil || lastMinute <= 1 {
		return ""
	}
	return fmt.Sprintf("The machine was busy before the run (load %s): do not rely on these values.", averages)
}

func (r report) fact(name string) string {
	for _, f := range r.Facts {
		if f.Name == name {
			return f.Value
		}
	}
	return ""
}

// heading is what the numbers depend on most.
func (r report) heading() string {
	return fmt.Sprintf("pushq %s, %s, load before: %s", r.fact(factPushq), r.fact(factProcessor), r.fact(factLoad))
}

func (r report) writeJSON(out io.Writer) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}
