package quartz

import "time"

// days combines the two day fields.
type days struct {
	ofMonth monthDays
	ofWeek  weekDays
	// either is the rule of Unix cron for two restricted day fields: one of
	// them is enough. Otherwise both have to match.
	either bool
}

func (d *days) in(month monthShape) set {
	if d.either {
		return d.ofMonth.in(month) | d.ofWeek.in(month)
	}
	return d.ofMonth.in(month) & d.ofWeek.in(month)
}

// monthShape is what the day rules need to know about a month.
type monthShape struct {
	length int
	// firstWeekday is the weekday of the 1st, Sunday = 0.
	firstWeekday int
}

func shapeOf(year int, month time.Month) monthShape {
	first := time.Date(year, month, 1, 0, 0, 0, 0, time.UTC)
	length := 31
	switch month {
	case time.April, time.June, time.September, time.November:
		length = 30
	case time.February:
		length = 28
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			length = 29
		}
	}
	return monthShape{length: length, firstWeekday: int(first.Weekday())}
}

// all returns the days 1 to length.
func (m monthShape) all() set {
	return 1<<(m.length+1) - 2
}

// firstOf returns the first day that is the given weekday, Sunday = 0.
func (m monthShape) firstOf(weekday int) int {
	return 1 + (weekday-m.firstWeekday+7)%7
}

func (m monthShape) weekday(day int) int {
	return (m.firstWeekday + day - 1) % 7
}

// monthDays is the day-of-month field: a list of days or one special day.
type monthDays struct {
	listed  set
	special *specialDay
}

func (d monthDays) in(month monthShape) set {
	if d.special != nil {
		return d.special.in(month)
	}
	return d.listed & month.all()
}

// specialDay is L, L-n, LW, L-nW or nW.
type specialDay struct {
	// fromEnd makes day count back from the last day of the month, which is 0.
	fromEnd bool
	day     int
	// toWeekday moves Saturdays and Sundays to the nearest weekday of the
	// same month.
	toWeekday bool
}

func (d *specialDay) in(month monthShape) set {
	day := d.day
	if d.fromEnd {
		day = month.length - d.day
	}
	if day < 1 || day > month.length {
		return 0
	}
	if d.toWeekday {
		day = month.nearestWeekday(day)
	}
	return 1 << day
}

func (m monthShape) nearestWeekday(day int) int {
	switch time.Weekday(m.weekday(day)) {
	case time.Saturday:
		if day == 1 {
			return 3
		}
		return day - 1
	case time.Sunday:
		if day == m.length {
			return day - 2
		}
		return day + 1
	default:
		return day
	}
}

// weekDays is the day-of-week field: a list of weekdays (Sunday = 0) in every
// week, or only in their nth or last occurrence in the month.
type weekDays struct {
	listed set
	// nth is 1 to 5, or 0 for every week.
	nth  int
	last bool
}

// everyWeek has day 0 and every seventh after it; moved left by the first
// Monday of a month, for example, it is all Mondays.
const everyWeek set = 1 | 1<<7 | 1<<14 | 1<<21 | 1<<28

func (d weekDays) in(month monthShape) set {
	var matching set
	for weekday, found := d.listed.next(0); found; weekday, found = d.listed.next(weekday + 1) {
		occurrences := everyWeek << month.firstOf(weekday) & month.all()
		switch {
		case d.last:
			matching.add(occurrences.last())
		case d.nth > 0:
			matching |= occurrences & (1 << (month.firstOf(weekday) + 7*(d.nth-1)))
		default:
			matching |= occurrences
		}
	}
	return matching
}
