package main

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
)

// A result is one line of the table: a promise, what pushq reached, and what
// one baseline reached beside it in the same rounds.
type result struct {
	Comparison string  `json:"comparison"`
	Promise    string  `json:"promise"`
	Unit       string  `json:"unit"`
	Pushq      samples `json:"pushq"`
	// Baseline is nil where there is nothing to compare with.
	Baseline *samples `json:"baseline,omitempty"`
	Verdict  verdict  `json:"verdict"`
}

// samples are the values of one contender, one of each round.
type samples struct {
	Contender string    `json:"contender"`
	Values    []float64 `json:"values"`
	// Notes are what else was seen, one of each round.
	Notes []string `json:"notes,omitempty"`
	// Missing says why there are no values.
	Missing string `json:"missing,omitempty"`
}

type verdict string

const (
	holds       verdict = "holds"
	fails       verdict = "does not hold"
	shownOnly   verdict = "shown only" // nothing is promised, or not beside this baseline
	notJudged   verdict = "not judged" // the run is too short
	unavailable verdict = "not available"
)

// MarshalJSON adds the median, since that is what is judged.
func (s samples) MarshalJSON() ([]byte, error) {
	type plain samples
	var middle *float64
	if m := median(s.Values); !math.IsNaN(m) {
		middle = &m
	}
	return json.Marshal(struct {
		plain
		Median *float64 `json:"median"`
	}{plain(s), middle})
}

// A rule judges the medians of pushq and of the baseline (NaN without one).
type rule func(pushq, baseline float64) bool

func atLeast(limit float64) rule { return func(pushq, _ float64) bool { return pushq >= limit } }
func atMost(limit float64) rule  { return func(pushq, _ float64) bool { return pushq <= limit } }

// atLeastTimes and atMostTimes compare with the baseline.
func atLeastTimes(times float64) rule {
	return func(pushq, baseline float64) bool { return pushq >= times*baseline }
}

func atMostTimes(times float64) rule {
	return func(pushq, baseline float64) bool { return pushq <= times*baseline }
}

// spread is the lowest and the highest of the rounds: of the ratio if there is
// a baseline, else of pushq's value.
func (r result) spread() string {
	values := r.Pushq.Values
	if r.Baseline != nil && len(r.Baseline.Values) > 0 {
		values = ratios(r.Pushq.Values, r.Baseline.Values)
	}
	if len(values) < 2 {
		return ""
	}
	return fmt.Sprintf("%s–%s", number(slices.Min(values)), number(slices.Max(values)))
}

func (r result) ratio() string {
	if r.Baseline == nil {
		return ""
	}
	divided := ratio(r.Pushq.Values, r.Baseline.Values)
	if math.IsNaN(divided) || math.IsInf(divided, 0) {
		return ""
	}
	return number(divided) + " x"
}

// cell shows the median and the note of the round that it comes from, or of the
// nearest one.
func (s *samples) cell(unit string, named bool) string {
	if s == nil {
		return ""
	}
	name := ""
	if named {
		name = s.Contender + ": "
	}
	if len(s.Values) == 0 {
		return name + "not measured" // why is in the JSON and on standard error
	}
	middle := median(s.Values)
	text := name + number(middle)
	if unit != "" {
		text += " " + unit
	}
	if len(s.Notes) == len(s.Values) {
		nearest := 0
		for round, value := range s.Values {
			if math.Abs(value-middle) < math.Abs(s.Values[nearest]-middle) {
				nearest = round
			}
		}
		if s.Notes[nearest] != "" {
			text += " (" + s.Notes[nearest] + ")"
		}
	}
	return text
}

// number writes a value with three significant digits, and no fewer than those
// before the point.
func number(value float64) string {
	const digits = 3
	if value == 0 || math.IsNaN(value) || math.IsInf(value, 0) {
		return fmt.Sprintf("%g", value)
	}
	decimals := digits - 1 - int(math.Floor(math.Log10(math.Abs(value))))
	return fmt.Sprintf("%.*f", max(decimals, 0), value)
}
