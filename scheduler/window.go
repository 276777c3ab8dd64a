// Package scheduler says when a push may be sent: windows given by cron
// expressions, and the delays of delivery policies. It is pure code: no
// Redis, no HTTP, and the time is always an argument.
package scheduler

import (
	"time"

	"pushq/scheduler/quartz"
)

// Window says when pushes with one cron expression may be sent. It never
// changes, so that any number of goroutines may use it at once.
//
// Matches of the expression that are at most a minute apart form a stretch. A
// stretch longer than a minute is a window: open from its first match to the
// end of its last match's minute, also between its matches. Every other
// stretch is an instant: it fixes when a push is tried first and nothing more.
// One expression may have both.
//
// Every matching minute has the same matching seconds. So two matching
// minutes belong to the same stretch exactly when they follow each other, and
// a stretch is a window when it has three minutes, or two with more than one
// second each. All of this is reckoned in elapsed time: an hour that a change
// of summer time repeats or skips makes a window longer or shorter.
type Window struct {
	schedule *quartz.Schedule
	zone     *time.Location
	// The matching seconds of every matching minute: the first, and whether
	// there are more.
	firstSecond    int
	severalSeconds bool
}

// ParseWindow reads a cron expression, to be matched against the wall clock of
// zone. Every error is a *quartz.ParseError.
func ParseWindow(expression string, zone *time.Location) (*Window, error) {
	schedule, err := quartz.Parse(expression)
	if err != nil {
		return nil, err
	}
	first, last := schedule.Seconds()
	return &Window{schedule: schedule, zone: zone, firstSecond: first, severalSeconds: last > first}, nil
}

// Due returns when a push that arrives now is to be sent: now, if a window is
// open or now matches as an instant; else the next match, a whole second. Held
// tells that this lies in a window, so that the push is to be sent in windows
// only, retries included; see Admits. The error is quartz.ErrNever when there
// is no such time.
func (w *Window) Due(now time.Time) (at time.Time, held bool, err error) {
	if w.isOpen(now) {
		return now, true, nil
	}
	if w.schedule.Satisfied(now, w.zone) {
		return now, false, nil
	}
	at, err = w.schedule.Next(now, w.zone)
	if err != nil {
		return time.Time{}, false, err
	}
	return at, w.inWindow(at), nil
}

// Admits tells whether a held push may be sent at t: a window is open, or an
// instant began less than a minute ago. Without the latter a push deferred to
// an instant, which is the next opening of an expression that has both, would
// be late for it and be deferred for ever.
func (w *Window) Admits(t time.Time) bool {
	if w.isOpen(t) {
		return true
	}
	match, err := w.schedule.Next(t.Add(-time.Minute), w.zone)
	return err == nil && !match.After(t) && !w.inWindow(match)
}

// NextOpening returns the first match after t, a whole second. At a time that
// is not admitted this is the next one that is. The error is quartz.ErrNever
// when there is none.
func (w *Window) NextOpening(t time.Time) (time.Time, error) {
	return w.schedule.Next(t, w.zone)
}

// isOpen tells whether a window, not an instant, is open at t.
func (w *Window) isOpen(t time.Time) bool {
	minute := w.minuteOf(t)
	if !w.matches(minute) || !w.inWindow(t) {
		return false
	}
	begun := !t.Before(minute.Add(time.Duration(w.firstSecond) * time.Second))
	return begun || w.matches(minute.Add(-time.Minute))
}

// inWindow tells whether the stretch that contains the minute of match is a
// window. That minute has to match.
func (w *Window) inWindow(match time.Time) bool {
	minute := w.minuteOf(match)
	const enough = 3
	minutes := 1
	for minutes < enough && w.matches(minute.Add(time.Duration(minutes)*time.Minute)) {
		minutes++
	}
	for back := minute.Add(-time.Minute); minutes < enough && w.matches(back); back = back.Add(-time.Minute) {
		minutes++
	}
	return minutes >= enough || (minutes == 2 && w.severalSeconds)
}

// minuteOf returns the beginning of t's minute on the wall clock.
func (w *Window) minuteOf(t time.Time) time.Time {
	second := t.In(w.zone).Second()
	return t.Truncate(time.Second).Add(-time.Duration(second) * time.Second)
}

// matches tells whether the minute has matching seconds.
func (w *Window) matches(minute time.Time) bool {
	return w.schedule.Satisfied(minute.Add(time.Duration(w.firstSecond)*time.Second), w.zone)
}
