// Package quartz reads cron expressions and says when they match.
//
// Two dialects are told apart by the number of fields alone:
//
//	6 or 7 fields   Quartz: second minute hour day-of-month month day-of-week [year]
//	5 fields        Unix cron: minute hour day-of-month month day-of-week
//
// Weekday numbers differ between the two: 1-5 is Sunday to Thursday in
// Quartz and Monday to Friday in Unix cron. Names mean the same in both.
//
// An expression is matched against the wall clock of a time zone. Wall-clock
// times that a change to summer time skips never match; those that a change
// back repeats match in both passes. (Quartz itself misses most of the first
// pass; everything else agrees with org.quartz.CronExpression 2.3.2.)
//
// Expressions may come from outside: parsing and searching are bounded and
// take microseconds, whatever the input.
package quartz

import (
	"errors"
	"time"
)

// ErrNever is returned by [Schedule.Next] when nothing matches any more.
var ErrNever = errors.New("the cron expression never fires again")

// Dialect names the grammar in which an expression was read.
type Dialect string

// The dialects.
const (
	Quartz Dialect = "Quartz"
	Unix   Dialect = "Unix cron"
)

// Schedule is a parsed expression. It never changes, so that any number of
// goroutines may use it at once.
type Schedule struct {
	dialect Dialect
	seconds set
	minutes set
	hours   set
	days    days
	months  set
	years   yearSet
}

// Dialect tells how the expression was read.
func (s *Schedule) Dialect() Dialect {
	return s.dialect
}

// Seconds returns the first and the last second that match in every matching
// minute, both 0 to 59. In Unix cron that is the whole minute, 0 and 59.
func (s *Schedule) Seconds() (first, last int) {
	return s.seconds.first(), s.seconds.last()
}

// Satisfied tells whether t matches on the wall clock of zone, fractions of a
// second ignored. Exactly then Next(t-1s) is t, cut to the second.
func (s *Schedule) Satisfied(t time.Time, zone *time.Location) bool {
	t = t.In(zone)
	year, month, day := t.Date()
	hour, minute, second := t.Clock()
	return s.seconds.has(second) && s.minutes.has(minute) && s.hours.has(hour) &&
		s.daysIn(year, month).has(day)
}

// daysIn returns the days of one month that match, year and month included.
func (s *Schedule) daysIn(year int, month time.Month) set {
	if !s.months.has(int(month)) || !s.years.has(year) {
		return 0
	}
	return s.days.in(shapeOf(year, month))
}
