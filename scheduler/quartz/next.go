package quartz

import (
	"math"
	"time"
)

// searchYears bounds the search of Next. The longest real distance between
// two matches is 40 years: a fifth Sunday in February around 2100.
const searchYears = 100

// maxOffset is more than any zone's distance from UTC, in seconds.
const maxOffset = 24 * 60 * 60

// Outside of these instants nothing can be found: an expression names the
// years firstYear to lastYear, and a search covers searchYears.
var (
	earliestStart = time.Date(firstYear-searchYears-1, time.January, 1, 0, 0, 0, 0, time.UTC).Unix()
	latestStart   = time.Date(lastYear+2, time.January, 1, 0, 0, 0, 0, time.UTC).Unix()
)

// Next returns the first whole second after the given time that matches on
// the wall clock of zone, as a time in zone. The error is ErrNever when there
// is none within 100 years or before the year 2200.
func (s *Schedule) Next(after time.Time, zone *time.Location) (time.Time, error) {
	at := after.Unix() + 1
	if at < earliestStart || at > latestStart {
		return time.Time{}, ErrNever
	}
	limit := after.AddDate(searchYears, 0, 0).Unix()
	for at <= limit {
		// Whatever matches from here on does so at this wall-clock time or a
		// later one, so the stretches before it need not be looked at.
		wall, found := s.firstWall(at-maxOffset, limit+maxOffset)
		if !found {
			break
		}
		at = max(at, wall-maxOffset)
		offset, end := offsetStretch(at, zone)
		wall, found = s.firstWall(at+offset, min(end-1, limit)+offset)
		if found {
			return time.Unix(wall-offset, 0).In(zone), nil
		}
		at = end
	}
	return time.Time{}, ErrNever
}

// offsetStretch returns the zone's offset from UTC at an instant and the
// first later instant at which it may differ, all in seconds.
func offsetStretch(at int64, zone *time.Location) (offset, end int64) {
	t := time.Unix(at, 0).In(zone)
	_, seconds := t.Zone()
	_, bound := t.ZoneBounds()
	switch {
	case bound.IsZero():
		end = math.MaxInt64
	case bound.Unix() <= at:
		// On 31 December of leap years ZoneBounds can return an end in the
		// past (golang/go#81583). No zone changes its offset on that day, so a
		// short step leads out of it.
		end = at + 15*60
	default:
		end = bound.Unix()
	}
	return int64(seconds), end
}

// firstWall returns the first matching wall-clock time in [from, to]. Such a
// time is written as the Unix seconds at which a clock in UTC shows it.
func (s *Schedule) firstWall(from, to int64) (wall int64, found bool) {
	start := time.Unix(from, 0).UTC()
	year, month, day := start.Date()
	if s.daysIn(year, month).has(day) {
		if clock, ok := s.nextClock(start.Clock()); ok {
			wall = time.Date(year, month, day, 0, 0, clock, 0, time.UTC).Unix()
			return wall, wall <= to
		}
	}

	earliest, _ := s.nextClock(0, 0, 0)
	endYear, endMonth, _ := time.Unix(to, 0).UTC().Date()
	for fromDay := day + 1; year < endYear || (year == endYear && month <= endMonth); fromDay = 1 {
		if day, ok := s.daysIn(year, month).next(fromDay); ok {
			wall = time.Date(year, month, day, 0, 0, earliest, 0, time.UTC).Unix()
			return wall, wall <= to
		}
		month++
		if month > time.December {
			year, month = year+1, time.January
		}
	}
	return 0, false
}

// nextClock returns the first matching time of day that is not before the
// given one, in seconds since midnight.
func (s *Schedule) nextClock(hour, minute, second int) (clock int, found bool) {
	for h, ok := s.hours.next(hour); ok; h, ok = s.hours.next(h + 1) {
		if h > hour {
			minute, second = 0, 0
		}
		for m, ok := s.minutes.next(minute); ok; m, ok = s.minutes.next(m + 1) {
			if m > minute {
				second = 0
			}
			if sec, ok := s.seconds.next(second); ok {
				return h*3600 + m*60 + sec, true
			}
		}
	}
	return 0, false
}
