package quartz

import (
	"fmt"
	"strings"
)

// MaxLength is the longest expression that Parse reads, in bytes. The job
// tables of Quartz itself hold no longer ones.
const MaxLength = 120

// ParseError says what is wrong with an expression.
type ParseError struct {
	// Field is seconds, minutes, hours, day-of-month, month, day-of-week or
	// year; empty if the expression as a whole is wrong.
	Field string
	// Reason is a phrase for the person who wrote the expression.
	Reason string
}

// Error does not say that it is about a cron expression: callers put the name in front
// by which the expression was given.
func (e *ParseError) Error() string {
	if e.Field == "" {
		return e.Reason
	}
	return "has a mistake in " + e.Field + ": " + e.Reason
}

// Parse reads an expression in the documented grammar of its dialect, upper
// or lower case; leniencies of particular Quartz versions are refused. Every
// error is a *ParseError. An expression that can never fire is not an error
// here; see [Schedule.Next].
func Parse(expression string) (*Schedule, error) {
	if len(expression) > MaxLength {
		return nil, wholeError("is %d bytes long, at most %d are allowed", len(expression), MaxLength)
	}
	// Before upper-casing, which turns some other letters into ASCII ones.
	for i := range len(expression) {
		if expression[i] >= 0x80 {
			return nil, wholeError("has a character at byte %d that is not ASCII", i+1)
		}
	}
	fields := strings.FieldsFunc(strings.ToUpper(expression), func(r rune) bool { return r == ' ' || r == '\t' })
	switch {
	case len(fields) == 0:
		return nil, wholeError("is empty")
	case strings.HasPrefix(fields[0], "@"):
		return nil, wholeError("must not be a shortcut such as @daily: write out the fields")
	case strings.Contains(fields[0], "="):
		return nil, wholeError("must not name the time zone, which is given beside it")
	case len(fields) == 5:
		return parseUnix(fields)
	case len(fields) == 6 || len(fields) == 7:
		return parseQuartz(fields)
	case len(fields) == 1:
		return nil, wholeError("has one field; 5 (Unix cron), 6 or 7 (Quartz) are needed")
	default:
		return nil, wholeError("has %d fields; 5 (Unix cron), 6 or 7 (Quartz) are needed", len(fields))
	}
}

func wholeError(format string, arguments ...any) error {
	return &ParseError{Reason: fmt.Sprintf(format, arguments...)}
}

// The fields of Quartz.
var (
	quartzSeconds   = field{name: "seconds", low: 0, high: 59, wraps: true}
	quartzMinutes   = field{name: "minutes", low: 0, high: 59, wraps: true}
	quartzHours     = field{name: "hours", low: 0, high: 23, wraps: true}
	quartzMonthDays = field{name: "day-of-month", low: 1, high: 31, wraps: true}
	quartzMonths    = field{name: "month", low: 1, high: 12, names: monthNames, wraps: true}
	quartzWeekDays  = field{name: "day-of-week", low: 1, high: 7, names: weekdayNames, wraps: true}
	quartzYears     = field{name: "year", low: firstYear, high: lastYear}
)

func parseQuartz(fields []string) (*Schedule, error) {
	s := &Schedule{dialect: Quartz}
	if err := quartzSeconds.list(fields[0], s.seconds.add); err != nil {
		return nil, err
	}
	if err := quartzMinutes.list(fields[1], s.minutes.add); err != nil {
		return nil, err
	}
	if err := quartzHours.list(fields[2], s.hours.add); err != nil {
		return nil, err
	}
	var err error
	if s.days.ofMonth, err = parseMonthDays(fields[3]); err != nil {
		return nil, err
	}
	if err := quartzMonths.list(fields[4], s.months.add); err != nil {
		return nil, err
	}
	if s.days.ofWeek, err = parseWeekDays(fields[5]); err != nil {
		return nil, err
	}
	year := "*"
	if len(fields) == 7 {
		year = fields[6]
	}
	if err := quartzYears.list(year, s.years.add); err != nil {
		return nil, err
	}
	if (fields[3] == "?") == (fields[5] == "?") {
		return nil, wholeError("must have ? in exactly one of day-of-month (the 4th field) and day-of-week (the 6th)")
	}
	return s, nil
}

// parseMonthDays reads a list, ?, L, L-n, LW, L-nW or nW.
func parseMonthDays(text string) (monthDays, error) {
	f := quartzMonthDays
	if !strings.ContainsAny(text, "LW") {
		var listed set
		if text == "?" {
			text = "*"
		}
		err := f.list(text, listed.add)
		return monthDays{listed: listed}, err
	}

	if strings.Contains(text, ",") {
		return monthDays{}, f.errorf("L and W cannot be part of a list")
	}
	day, toWeekday := strings.CutSuffix(text, "W")
	special := &specialDay{toWeekday: toWeekday}
	var err error
	switch before, fromEnd := strings.CutPrefix(day, "L-"); {
	case day == "L":
		special.fromEnd = true
	case fromEnd:
		special.fromEnd = true
		special.day, err = f.number(before, 0, 30)
	default:
		special.day, err = f.number(day, f.low, f.high)
	}
	return monthDays{special: special}, err
}

// parseWeekDays reads a list, ?, L (Saturday), and with a being a number or a
// name: aL (the last in the month), a#k (the kth in the month).
func parseWeekDays(text string) (weekDays, error) {
	f := quartzWeekDays
	var d weekDays
	addDay := func(value int) { d.listed.add(value - f.low) }
	if !strings.ContainsAny(text, "L#") {
		if text == "?" {
			text = "*"
		}
		err := f.list(text, addDay)
		return d, err
	}

	if strings.Contains(text, ",") {
		return weekDays{}, f.errorf("L and # cannot be part of a list")
	}
	if text == "L" {
		addDay(f.high)
		return d, nil
	}
	day, isLast := strings.CutSuffix(text, "L")
	day, nth, isNth := strings.Cut(day, "#")
	if isLast && isNth {
		return weekDays{}, f.errorf("%q is not understood", text)
	}
	value, err := f.value(day)
	if err != nil {
		return weekDays{}, err
	}
	addDay(value)
	d.last = isLast
	if isNth {
		d.nth, err = f.number(nth, 1, 5)
	}
	return d, err
}
