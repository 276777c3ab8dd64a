package quartz

import "strings"

// The fields of Unix cron. In day-of-week both 0 and 7 are Sunday.
var (
	unixMinutes   = field{name: "minutes", low: 0, high: 59}
	unixHours     = field{name: "hours", low: 0, high: 23}
	unixMonthDays = field{name: "day-of-month", low: 1, high: 31}
	unixMonths    = field{name: "month", low: 1, high: 12, names: monthNames}
	unixWeekDays  = field{name: "day-of-week", low: 0, high: 7, names: weekdayNames}
)

// parseUnix reads the five fields of Unix cron. Every second of a matching
// minute matches: an expression is often a window, and a window that is open
// for one second a minute would let hardly anything through.
func parseUnix(fields []string) (*Schedule, error) {
	s := &Schedule{dialect: Unix}
	quartzSeconds.addRange(quartzSeconds.low, quartzSeconds.high, 1, s.seconds.add)
	quartzYears.addRange(quartzYears.low, quartzYears.high, 1, s.years.add)
	if err := unixMinutes.list(fields[0], s.minutes.add); err != nil {
		return nil, err
	}
	if err := unixHours.list(fields[1], s.hours.add); err != nil {
		return nil, err
	}
	if err := unixMonthDays.list(fields[2], s.days.ofMonth.listed.add); err != nil {
		return nil, err
	}
	if err := unixMonths.list(fields[3], s.months.add); err != nil {
		return nil, err
	}
	addWeekDay := func(value int) { s.days.ofWeek.listed.add(value % 7) }
	if err := unixWeekDays.list(fields[4], addWeekDay); err != nil {
		return nil, err
	}
	s.days.either = !strings.HasPrefix(fields[2], "*") && !strings.HasPrefix(fields[4], "*")
	return s, nil
}
