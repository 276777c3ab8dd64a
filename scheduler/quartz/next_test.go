package quartz

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func mustParse(t require.TestingT, expression string) *Schedule {
	schedule, err := Parse(expression)
	require.NoError(t, err, expression)
	return schedule
}

func mustLoad(t require.TestingT, name string) *time.Location {
	zone, err := time.LoadLocation(name)
	require.NoError(t, err)
	return zone
}

func TestNextNever(t *testing.T) {
	t.Parallel()
	for _, expression := range []string{
		"0 0 0 30 2 ?",
		"0 0 0 31 2,4,6,9,11 ?",
		"0 0 0 31W APR ?",
		"0 0 0 29W 2 ? 2027",
		"0 0 0 L-30 2 ?",
		"0 0 0 ? 2 2#5 2027",
		"* * * * * ? 2025",
		"59 59 23 31 12 ? 1970",
		"0 30 2 29 3 ? 2026-2030/10", // 2026 in the gap, after it not until 2036
		"0 0 30 2 *",
	} {
		_, err := mustParse(t, expression).Next(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC), mustLoad(t, "Europe/Stockholm"))
		require.ErrorIs(t, err, ErrNever, expression)
	}
}

func TestNextIsBounded(t *testing.T) {
	t.Parallel()
	everySecond, last := mustParse(t, "* * * * * ?"), mustParse(t, "59 59 23 31 12 ? 2199")
	for _, after := range []time.Time{
		{},
		time.Unix(math.MinInt64, 0),
		time.Unix(math.MaxInt64, 0),
		time.Date(1868, 12, 31, 0, 0, 0, 0, time.UTC),
		time.Date(2199, 12, 31, 23, 59, 59, 0, time.UTC),
		time.Date(5000, 1, 1, 0, 0, 0, 0, time.UTC),
	} {
		_, err := everySecond.Next(after, time.UTC)
		require.ErrorIs(t, err, ErrNever, after)
	}
	next, err := everySecond.Next(time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC), time.UTC)
	require.NoError(t, err)
	require.Equal(t, "1970-01-01T00:00:00Z", next.Format(time.RFC3339))
	next, err = last.Next(time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC), time.UTC)
	require.NoError(t, err)
	require.Equal(t, "2199-12-31T23:59:59Z", next.Format(time.RFC3339))
	_, err = last.Next(time.Date(2099, 12, 31, 0, 0, 0, 0, time.UTC), time.UTC)
	require.ErrorIs(t, err, ErrNever, "more than 100 years off")
}

// The longest distance between two matches.
func TestNextFindsTheFifthSundayOfFebruary(t *testing.T) {
	t.Parallel()
	next, err := mustParse(t, "0 0 0 ? 2 1#5").Next(time.Date(2088, 3, 1, 0, 0, 0, 0, time.UTC), time.UTC)
	require.NoError(t, err)
	require.Equal(t, "2128-02-29T00:00:00Z", next.Format(time.RFC3339))
}

// Around 31 December of leap years from 2040 on, ZoneBounds returns an end
// that lies in the past.
func TestNextPassesTheLastDayOfEveryYear(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"Europe/Stockholm", "America/New_York", "Australia/Lord_Howe", "Pacific/Auckland", "America/Santiago"} {
		zone := mustLoad(t, name)
		for year := 2037; year <= 2045; year++ {
			for hour := range 24 {
				at := time.Date(year, 12, 31, hour, 30, 0, 0, zone)

				next, err := mustParse(t, "0 0 12 1 2 ?").Next(at, zone)
				require.NoError(t, err)
				require.Equal(t, time.Date(year+1, 2, 1, 12, 0, 0, 0, zone), next)

				next, err = mustParse(t, "0 0 12 15 7 ?").Next(at, zone)
				require.NoError(t, err)
				require.Equal(t, time.Date(year+1, 7, 15, 12, 0, 0, 0, zone), next)

				next, err = mustParse(t, "30 30 * 31 12 ?").Next(at, zone)
				require.NoError(t, err)
				require.Equal(t, at.Add(30*time.Second), next)

				require.Equal(t, at.Add(time.Second), mustNext(t, "* * * * * ?", at, zone))
			}
		}
	}
}

func mustNext(t require.TestingT, expression string, after time.Time, zone *time.Location) time.Time {
	next, err := mustParse(t, expression).Next(after, zone)
	require.NoError(t, err)
	return next
}

func TestOffsetStretchEndsAtEveryChange(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"Europe/Stockholm", "Australia/Lord_Howe", "Africa/Cairo", "Africa/Casablanca", "UTC"} {
		zone := mustLoad(t, name)
		limit := time.Date(2046, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
		for at := time.Date(2038, 12, 1, 0, 0, 0, 0, time.UTC).Unix(); at < limit; {
			offset, end := offsetStretch(at, zone)
			require.Greater(t, end, at)
			for ; at < min(end, limit); at += 15 * 60 {
				_, actual := time.Unix(at, 0).In(zone).Zone()
				require.EqualValues(t, actual, offset, "%s at %d", name, at)
			}
		}
	}
}

// Next against a search second by second, over the days on which clocks
// change.
func TestNextAgainstBruteForce(t *testing.T) {
	t.Parallel()
	changes := []struct {
		zone string
		day  time.Time
	}{
		{"Europe/Stockholm", time.Date(2026, 3, 29, 0, 0, 0, 0, time.UTC)},
		{"Europe/Stockholm", time.Date(2026, 10, 25, 0, 0, 0, 0, time.UTC)},
		{"Europe/Stockholm", time.Date(2040, 12, 31, 12, 0, 0, 0, time.UTC)},
		{"America/New_York", time.Date(2027, 3, 14, 6, 0, 0, 0, time.UTC)},
		{"America/New_York", time.Date(2027, 11, 7, 4, 0, 0, 0, time.UTC)},
		{"Australia/Lord_Howe", time.Date(2028, 4, 1, 14, 0, 0, 0, time.UTC)},
		{"Australia/Lord_Howe", time.Date(2028, 9, 30, 14, 0, 0, 0, time.UTC)},
		{"Africa/Cairo", time.Date(2027, 4, 29, 21, 0, 0, 0, time.UTC)},
		{"Africa/Cairo", time.Date(2027, 10, 28, 19, 0, 0, 0, time.UTC)},
		{"America/Santiago", time.Date(2027, 4, 4, 1, 0, 0, 0, time.UTC)},
		{"Pacific/Apia", time.Date(2011, 12, 30, 9, 0, 0, 0, time.UTC)}, // a day left out
		{"Asia/Kathmandu", time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)},
	}
	rapid.Check(t, func(t *rapid.T) {
		expression := expressions.Draw(t, "expression")
		change := rapid.SampledFrom(changes).Draw(t, "change")
		after := change.day.Add(time.Duration(rapid.IntRange(-3*3600, 3*3600).Draw(t, "offset")) * time.Second)
		schedule, zone := mustParse(t, expression), mustLoad(t, change.zone)

		const seconds = 2 * 3600
		next, err := schedule.Next(after, zone)
		for i := 1; i <= seconds; i++ {
			at := after.Add(time.Duration(i) * time.Second)
			if schedule.Satisfied(at, zone) {
				require.NoError(t, err)
				require.Equal(t, at.In(zone).String(), next.String())
				return
			}
		}
		if err == nil {
			require.True(t, next.After(after.Add(seconds*time.Second)), "%s is no match", next)
		}
	})
}

// expressions are mostly dense ones, so that the brute-force search finds
// something.
var expressions = rapid.Custom(func(t *rapid.T) string {
	list := func(label string, low, high int) string {
		if rapid.IntRange(0, 2).Draw(t, label+" any") == 0 {
			return "*"
		}
		item := rapid.Custom(func(t *rapid.T) string {
			from, to := rapid.IntRange(low, high).Draw(t, "from"), rapid.IntRange(low, high).Draw(t, "to")
			switch rapid.IntRange(0, 3).Draw(t, "kind") {
			case 0:
				return fmt.Sprint(from)
			case 1:
				return fmt.Sprintf("%d-%d", from, to)
			case 2:
				return fmt.Sprintf("%d/%d", from, rapid.IntRange(1, 7).Draw(t, "step"))
			default:
				return fmt.Sprintf("%d-%d/%d", from, to, rapid.IntRange(1, 7).Draw(t, "step"))
			}
		})
		return strings.Join(rapid.SliceOfN(item, 1, 3).Draw(t, label), ",")
	}
	clock := list("seconds", 0, 59) + " " + list("minutes", 0, 59) + " " + list("hours", 0, 23)
	if rapid.Bool().Draw(t, "by month") {
		return clock + " " + list("days", 1, 31) + " * ?"
	}
	return clock + " ? * " + list("weekdays", 1, 7)
})

// Satisfied(t) exactly when Next(t-1s) is t.
func TestSatisfiedIsNextOfTheSecondBefore(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		schedule := mustParse(t, expressions.Draw(t, "expression"))
		zone := mustLoad(t, rapid.SampledFrom([]string{"Europe/Stockholm", "America/New_York", "Australia/Lord_Howe", "UTC"}).Draw(t, "zone"))
		at := time.Unix(rapid.Int64Range(1_600_000_000, 4_000_000_000).Draw(t, "at"), 0)
		for range 50 {
			next, err := schedule.Next(at.Add(-time.Second), zone)
			require.Equal(t, schedule.Satisfied(at, zone), err == nil && next.Equal(at))
			if err != nil {
				return
			}
			require.True(t, schedule.Satisfied(next, zone))
			require.Zero(t, next.Nanosecond())
			at = next.Add(time.Duration(rapid.IntRange(0, 4000).Draw(t, "step")) * time.Second)
		}
	})
}

func TestFractionsOfASecond(t *testing.T) {
	t.Parallel()
	noon := mustParse(t, "0 0 12 * * ?")
	day := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	require.True(t, noon.Satisfied(day.Add(999*time.Millisecond), time.UTC))
	require.False(t, noon.Satisfied(day.Add(-time.Millisecond), time.UTC))
	require.Equal(t, day, mustNext(t, "0 0 12 * * ?", day.Add(-time.Nanosecond), time.UTC))
	require.Equal(t, day.AddDate(0, 0, 1), mustNext(t, "0 0 12 * * ?", day.Add(time.Nanosecond), time.UTC))
}
