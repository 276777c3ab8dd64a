package main

import (
	"context"
	"math"
	"slices"
	"strings"
	"time"
)

// A bench runs comparisons.
type bench struct {
	directory string // for everything that is thrown away
	programs  programs
	sizes     sizes
	judges    bool
	progress  func(format string, args ...any)
}

// A comparison measures one line, or a few that belong together, of the table
// of promises.
type comparison struct {
	name string
	what string
	run  func(b *bench) []result
}

// comparisons in the order of the table.
var comparisons = []comparison{
	{"rate", "use of the provider's limit by 1, 2 and 4 worker processes", (*bench).rate},
	{"rate-latency", "the same with 5 ms between workers and Redis", (*bench).rateLatency},
	{"accept", "POST /push: requests a second, p99", (*bench).accept},
	{"batch", "POST /push/batch: pushes a second", (*bench).batch},
	{"drain", "pushes a second without a rate limit", (*bench).drain},
	{"drain-latency", "the same with 5 ms between workers and Redis", (*bench).drainLatency},
	{"idle", "POST to provider on an idle system, and what idling costs", (*bench).idle},
	{"herd", "an immediate push while 100,000 windowed ones are due", (*bench).herd},
	{"window", "how late a push with a window is sent", (*bench).window},
	{"memory", "Redis memory for a queued push", (*bench).memory},
	{"million", "a million scheduled pushes: memory, lookups, lists, the start of sending", (*bench).million},
	{"commands", "Redis commands for a delivered push", (*bench).commands},
}

// finished is what a run has to show: all that was chosen, or less if it was
// interrupted.
type finished struct {
	comparisons int
	results     []result
}

// runAll runs one comparison after the other. If interrupted it returns at once
// with those that have finished, and the process must end: that is what ends
// the processes of the one that has not.
func (b *bench) runAll(interrupted context.Context, chosen []comparison) finished {
	lines := make(chan []result, len(chosen)) // nobody may be left to read them
	go func() {
		for place, c := range chosen {
			b.progress("comparison %d of %d: %s", place+1, len(chosen), c.name)
			found := c.run(b)
			for line := range found {
				found[line].Comparison = c.name
			}
			lines <- found
		}
	}()
	var done finished
	for done.comparisons < len(chosen) {
		select {
		case found := <-lines:
			done.add(found)
		case <-interrupted.Done():
			for len(lines) > 0 { // select may have chosen the interruption first
				done.add(<-lines)
			}
			return done
		}
	}
	return done
}

func (f *finished) add(lines []result) {
	f.comparisons++
	f.results = append(f.results, lines...)
}

// A measurement is what one round found out about one contender.
type measurement struct {
	values map[string]float64
	note   string
}

// rounds are the measurements of all contenders, in the order of the rounds.
type rounds struct {
	measured map[string][]measurement
	missing  map[string]string // why a contender has none
}

// sideBySide measures the contenders in turn, A B A B, so many rounds. A
// contender that cannot be measured is left out from then on.
func (b *bench) sideBySide(what string, times int, measure func(t *stage, c contender) measurement, contenders ...contender) rounds {
	found := rounds{map[string][]measurement{}, map[string]string{}}
	for round := range times {
		for _, c := range contenders {
			if found.missing[c.name] != "" {
				continue
			}
			var measured measurement
			began := time.Now()
			if err := b.onStage(func(t *stage) { measured = measure(t, c) }); err != nil {
				reason, _, _ := strings.Cut(err.Error(), "\n")
				found.missing[c.name] = reason
				found.measured[c.name] = nil
				b.progress("%s, round %d of %d, %s: %v", what, round+1, times, c.name, err)
				continue
			}
			found.measured[c.name] = append(found.measured[c.name], measured)
			b.progress("%s, round %d of %d, %s: %s (%.1f s)", what, round+1, times, c.name, measured, time.Since(began).Seconds())
		}
	}
	return found
}

func (r rounds) samples(c contender, value string) samples {
	s := samples{Contender: c.name, Missing: r.missing[c.name]}
	for _, m := range r.measured[c.name] {
		s.Values = append(s.Values, m.values[value])
		s.Notes = append(s.Notes, m.note)
	}
	return s
}

// A promise is what a line of the table says, and how it is judged; without a
// rule it is only shown.
type promise struct {
	text  string
	value string // of the measurements
	unit  string
	rule  rule
	// never is a value that must be 0 in every round.
	never string
}

// judgeAll makes a line for each baseline. The promise is judged beside the
// first one, which for throughputs is asynq tuned like pushq and for latencies
// asynq with its defaults; the others are shown.
func (b *bench) judgeAll(r rounds, p promise, baselines ...contender) []result {
	var lines []result
	for _, baseline := range baselines {
		lines = append(lines, b.judge(r, p, baseline))
		p.rule = nil
	}
	return lines
}

// judge makes a line of the table. Without a baseline pass contender{}.
func (b *bench) judge(r rounds, p promise, baseline contender) result {
	line := result{Promise: p.text, Unit: p.unit, Pushq: r.samples(pushq, p.value), Verdict: shownOnly}
	reference := math.NaN()
	if baseline.name != "" {
		compared := r.samples(baseline, p.value)
		line.Baseline = &compared
		reference = median(compared.Values)
	}
	switch {
	case p.rule == nil:
	case len(line.Pushq.Values) == 0:
		line.Verdict = unavailable
	case !b.judges:
		line.Verdict = notJudged
	case line.Baseline != nil && len(line.Baseline.Values) == 0:
		line.Verdict = unavailable
	case p.rule(median(line.Pushq.Values), reference) && (p.never == "" || slices.Max(r.samples(pushq, p.never).Values) == 0):
		line.Verdict = holds
	default:
		line.Verdict = fails
	}
	return line
}
