package scheduler

import (
	"time"

	"pushq/scheduler/quartz"
)

// Reading tells people how an expression is understood.
type Reading struct {
	Dialect quartz.Dialect
	Kind    Kind
	// Open tells whether a window is open at the time asked about.
	Open bool
	// Closes is when the open window closes, the first instant outside of it.
	// Zero if none is open, or if it stays open for longer than MaxOpen.
	Closes time.Time
	// Next are the openings after the time asked about, at most as many as
	// asked for. Empty if there are none, or none that can be seen behind a
	// window that stays open for longer than MaxOpen.
	Next []Opening
}

// MaxOpen is how far the end of a window is searched for.
const MaxOpen = 400 * 24 * time.Hour

// Kind sums up the openings of an expression.
type Kind string

// The kinds, judged by the openings of a Reading.
const (
	KindNever   Kind = "never opens again"
	KindWindow  Kind = "window"
	KindInstant Kind = "instants"
	KindMixed   Kind = "windows and instants"
)

// Opening is one stretch of an expression.
type Opening struct {
	// Start is its first match, a whole second.
	Start time.Time
	// Window tells a window from an instant.
	Window bool
	// End is when the window closes, the first instant outside of it. Zero for
	// an instant, and for a window that stays open for longer than MaxOpen.
	End time.Time
}

// Read describes the expression as seen at a time, with at most the given
// number of openings after it. All times are in the window's zone. The end of
// a window is searched minute by minute, so that a window open for a year
// takes some tens of milliseconds: this is for people, not for the send path.
func (w *Window) Read(at time.Time, openings int) Reading {
	reading := Reading{Dialect: w.schedule.Dialect(), Open: w.isOpen(at)}
	from, isLimited := at, true
	if reading.Open {
		reading.Closes, isLimited = w.endOf(at)
		from = reading.Closes.Add(-time.Second)
	}

	hasWindow, hasInstant := reading.Open, false
	for isLimited && len(reading.Next) < openings {
		match, err := w.schedule.Next(from, w.zone)
		if err != nil {
			break
		}
		opening := Opening{Start: match, Window: w.inWindow(match)}
		var end time.Time
		end, isLimited = w.endOf(match)
		from = end.Add(-time.Second)
		if opening.Window {
			hasWindow = true
			opening.End = end
		} else {
			hasInstant = true
		}
		if w.startsStretch(match) {
			reading.Next = append(reading.Next, opening)
		}
	}

	switch {
	case hasWindow && hasInstant:
		reading.Kind = KindMixed
	case hasWindow:
		reading.Kind = KindWindow
	case hasInstant:
		reading.Kind = KindInstant
	default:
		reading.Kind = KindNever
	}
	return reading
}

// startsStretch tells whether a match is the first of its stretch. It is not
// when the time asked about lies within an instant of several seconds.
func (w *Window) startsStretch(match time.Time) bool {
	return match.Second() == w.firstSecond && !w.matches(w.minuteOf(match).Add(-time.Minute))
}

// endOf returns the end of the stretch that contains the minute of t: the end
// of its last minute.
func (w *Window) endOf(t time.Time) (end time.Time, found bool) {
	minute := w.minuteOf(t)
	for end = minute; end.Sub(minute) <= MaxOpen; end = end.Add(time.Minute) {
		if !w.matches(end) {
			return end.In(w.zone), true
		}
	}
	return time.Time{}, false
}
