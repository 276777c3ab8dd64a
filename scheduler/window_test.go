package scheduler

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"pushq/scheduler/quartz"
)

func mustParse(t require.TestingT, expression, zoneName string) *Window {
	zone, err := TimeZone(zoneName)
	require.NoError(t, err)
	window, err := ParseWindow(expression, zone)
	require.NoError(t, err, expression)
	return window
}

func mustTime(t require.TestingT, text string) time.Time {
	at, err := time.Parse(time.RFC3339Nano, text)
	require.NoError(t, err)
	return at
}

func TestDue(t *testing.T) {
	t.Parallel()
	const now = "now"
	// 27 November 2026 is a Friday.
	for _, test := range []struct {
		expression, at, due string
		held                bool
	}{
		// The same window three times.
		{"* * 9-17 ? * MON-FRI", "2026-11-27T08:59:59.999Z", "2026-11-27T09:00:00Z", true},
		{"* * 9-17 ? * MON-FRI", "2026-11-27T09:00:00Z", now, true},
		{"* * 9-17 ? * MON-FRI", "2026-11-27T17:59:59.999Z", now, true},
		{"* * 9-17 ? * MON-FRI", "2026-11-27T18:00:00Z", "2026-11-30T09:00:00Z", true},
		{"0 * 9-17 ? * MON-FRI", "2026-11-27T08:59:59.999Z", "2026-11-27T09:00:00Z", true},
		{"0 * 9-17 ? * MON-FRI", "2026-11-27T09:00:30.5Z", now, true},
		{"0 * 9-17 ? * MON-FRI", "2026-11-27T17:59:59.999Z", now, true},
		{"0 * 9-17 ? * MON-FRI", "2026-11-27T18:00:00Z", "2026-11-30T09:00:00Z", true},
		{"* 9-17 * * 1-5", "2026-11-27T08:59:59.999Z", "2026-11-27T09:00:00Z", true},
		{"* 9-17 * * 1-5", "2026-11-27T17:59:59.999Z", now, true},
		{"* 9-17 * * 1-5", "2026-11-27T18:00:00Z", "2026-11-30T09:00:00Z", true},
		// A window begins at its first match, not with that match's minute.
		{"30 * 9-17 ? * MON-FRI", "2026-11-27T09:00:29.9Z", "2026-11-27T09:00:30Z", true},
		{"30 * 9-17 ? * MON-FRI", "2026-11-27T09:01:10Z", now, true},
		{"30 * 9-17 ? * MON-FRI", "2026-11-27T17:59:59Z", now, true},
		// Over midnight, and over the weekend.
		{"* * 22-6 * * ?", "2026-11-27T21:59:59Z", "2026-11-27T22:00:00Z", true},
		{"* * 22-6 * * ?", "2026-11-28T00:00:00Z", now, true},
		{"* * 22-6 * * ?", "2026-11-28T07:00:00Z", "2026-11-28T22:00:00Z", true},
		{"* * * ? * FRI-MON", "2026-11-30T23:59:59.9Z", now, true},
		{"* * * ? * FRI-MON", "2026-12-01T00:00:00Z", "2026-12-04T00:00:00Z", true},
		// Instants.
		{"0 0/5 9-17 * * ?", "2026-11-27T09:00:00.7Z", now, false},
		{"0 0/5 9-17 * * ?", "2026-11-27T09:00:01Z", "2026-11-27T09:05:00Z", false},
		{"0 0 10 * * ?", "2026-11-27T10:00:00Z", now, false},
		{"0 0 10 * * ?", "2026-11-27T10:00:01Z", "2026-11-28T10:00:00Z", false},
		{"0 9 * * 1-5", "2026-11-27T09:00:30Z", now, false},
		{"0 9 * * 1-5", "2026-11-27T09:01:00Z", "2026-11-30T09:00:00Z", false},
		{"*/10 0 9 * * ?", "2026-11-27T09:00:15Z", "2026-11-27T09:00:20Z", false},
		// A stretch of exactly one minute is none longer than a minute.
		{"0 0,1 9 * * ?", "2026-11-27T08:00:00Z", "2026-11-27T09:00:00Z", false},
		{"0 0,1 9 * * ?", "2026-11-27T09:00:30Z", "2026-11-27T09:01:00Z", false},
		{"0 0,1,2 9 * * ?", "2026-11-27T09:00:30Z", now, true},
		{"0,1 0,1 9 * * ?", "2026-11-27T09:00:30Z", now, true},
		{"0,1 0,2 9 * * ?", "2026-11-27T09:00:30Z", "2026-11-27T09:02:00Z", false},
		{"0 0 * * * ?", "2026-11-27T08:00:00Z", now, false},
		{"0 59,0,1 * * * ?", "2026-11-27T09:00:30Z", now, true},
		// Both in one expression.
		{"0 0-5,30 9 * * ?", "2026-11-27T09:03:30Z", now, true},
		{"0 0-5,30 9 * * ?", "2026-11-27T09:05:59Z", now, true},
		{"0 0-5,30 9 * * ?", "2026-11-27T09:06:00Z", "2026-11-27T09:30:00Z", false},
		{"0 0-5,30 9 * * ?", "2026-11-27T09:30:00.1Z", now, false},
		{"0 0-5,30 9 * * ?", "2026-11-27T09:30:01Z", "2026-11-28T09:00:00Z", true},
		{"* * * ? * *", "2026-11-27T03:04:05.678Z", now, true},
		{"* * * * *", "2026-11-27T03:04:05.678Z", now, true},
	} {
		at, held, err := mustParse(t, test.expression, "UTC").Due(mustTime(t, test.at))
		require.NoError(t, err)
		want := test.due
		if want == now {
			want = test.at
		}
		require.Equal(t, want, at.UTC().Format(time.RFC3339Nano), "%s at %s", test.expression, test.at)
		require.Equal(t, test.held, held, "%s at %s", test.expression, test.at)
	}
}

func TestDueOnDaysOfClockChanges(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		expression, at, due string
		held                bool
	}{
		// 02:00 to 02:59 does not exist on 29 March.
		{"* * 2 * * ?", "2026-03-29T01:30:00+01:00", "2026-03-30T02:00:00+02:00", true},
		{"* * 1-3 * * ?", "2026-03-29T03:30:00+02:00", "2026-03-29T03:30:00+02:00", true},
		{"0 59 1 * * ?", "2026-03-29T01:59:01+01:00", "2026-03-30T01:59:00+02:00", false},
		// Minutes that follow each other across the gap are one stretch.
		{"0 0,59 1,3 29 3 ?", "2026-03-29T01:59:30+01:00", "2026-03-29T03:00:00+02:00", false},
		{"0,1 0,59 1,3 29 3 ?", "2026-03-29T01:59:30+01:00", "2026-03-29T01:59:30+01:00", true},
		// 02:00 to 02:59 exists twice on 25 October.
		{"* * 2 * * ?", "2026-10-25T01:59:59+02:00", "2026-10-25T02:00:00+02:00", true},
		{"* * 2 * * ?", "2026-10-25T02:59:59+01:00", "2026-10-25T02:59:59+01:00", true},
		{"* 0-29 2 * * ?", "2026-10-25T02:30:00+02:00", "2026-10-25T02:00:00+01:00", true},
		{"0 30 2 * * ?", "2026-10-25T02:30:01+02:00", "2026-10-25T02:30:00+01:00", false},
		{"0 30 2 * * ?", "2026-10-25T02:30:01+01:00", "2026-10-26T02:30:00+01:00", false},
	} {
		at, held, err := mustParse(t, test.expression, "Europe/Stockholm").Due(mustTime(t, test.at))
		require.NoError(t, err)
		require.True(t, mustTime(t, test.due).Equal(at), "%s at %s: %s", test.expression, test.at, at)
		require.Equal(t, test.held, held, "%s at %s", test.expression, test.at)
	}
}

func TestAdmits(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		expression, at string
		admits         bool
	}{
		{"* * 9-17 ? * MON-FRI", "2026-11-27T08:59:59.999Z", false},
		{"* * 9-17 ? * MON-FRI", "2026-11-27T09:00:00Z", true},
		{"* * 9-17 ? * MON-FRI", "2026-11-27T17:59:59.999Z", true},
		{"* * 9-17 ? * MON-FRI", "2026-11-27T18:00:00Z", false},
		{"0 * 9-17 ? * MON-FRI", "2026-11-27T17:59:59.999Z", true},
		// A minute for the first try of an instant begins at the instant; the
		// minute of a window's last match is none.
		{"30 0-5,30 9 * * ?", "2026-11-27T09:00:29Z", false},
		{"30 0-5,30 9 * * ?", "2026-11-27T09:00:30Z", true},
		{"30 0-5,30 9 * * ?", "2026-11-27T09:05:59.999Z", true},
		{"30 0-5,30 9 * * ?", "2026-11-27T09:06:00Z", false},
		{"30 0-5,30 9 * * ?", "2026-11-27T09:30:29.999Z", false},
		{"30 0-5,30 9 * * ?", "2026-11-27T09:30:30Z", true},
		{"30 0-5,30 9 * * ?", "2026-11-27T09:31:29.999Z", true},
		{"30 0-5,30 9 * * ?", "2026-11-27T09:31:30Z", false},
		{"* * * ? * * 2026", "2026-12-31T23:59:59.999Z", true},
		{"* * * ? * * 2026", "2027-01-01T00:00:00Z", false},
	} {
		window := mustParse(t, test.expression, "UTC")
		require.Equal(t, test.admits, window.Admits(mustTime(t, test.at)), "%s at %s", test.expression, test.at)
	}
}

func TestNextOpening(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ expression, at, opening string }{
		{"* * 9-17 ? * MON-FRI", "2026-11-27T18:00:00Z", "2026-11-30T09:00:00Z"},
		{"0 0-5,30 9 * * ?", "2026-11-27T09:06:00Z", "2026-11-27T09:30:00Z"},
		{"0 0-5,30 9 * * ?", "2026-11-27T09:31:00Z", "2026-11-28T09:00:00Z"},
	} {
		opening, err := mustParse(t, test.expression, "UTC").NextOpening(mustTime(t, test.at))
		require.NoError(t, err)
		require.Equal(t, test.opening, opening.Format(time.RFC3339))
	}
}

func TestTheLastWindowIsGone(t *testing.T) {
	t.Parallel()
	window := mustParse(t, "* * 9-17 ? * MON-FRI 2026", "UTC")
	// 31 December 2026 is a Thursday.
	at, held, err := window.Due(mustTime(t, "2026-12-31T17:59:59Z"))
	require.NoError(t, err)
	require.True(t, held)
	require.Equal(t, "2026-12-31T17:59:59Z", at.Format(time.RFC3339))

	gone := mustTime(t, "2026-12-31T18:00:00Z")
	_, _, err = window.Due(gone)
	require.ErrorIs(t, err, quartz.ErrNever)
	_, err = window.NextOpening(gone)
	require.ErrorIs(t, err, quartz.ErrNever)
	require.False(t, window.Admits(gone))
}

func TestParseWindowNamesTheField(t *testing.T) {
	t.Parallel()
	_, err := ParseWindow("* * 24 * * ?", time.UTC)
	var parseError *quartz.ParseError
	require.ErrorAs(t, err, &parseError)
	require.Equal(t, "hours", parseError.Field)
}

// drawWindow makes windows, instants and mixtures of both, on days of clock
// changes and others.
func drawWindow(t *rapid.T) (window *Window, expression string, at time.Time) {
	field := func(label string, high int) string {
		return rapid.SampledFrom([]string{
			"*", "0", "30", "0/5", "0,1", "0-2", "58-1", "0-5,30", "1/2",
			fmt.Sprint(rapid.IntRange(0, high).Draw(t, label+" value")),
			fmt.Sprintf("%d-%d", rapid.IntRange(0, high).Draw(t, label+" from"), rapid.IntRange(0, high).Draw(t, label+" to")),
		}).Draw(t, label)
	}
	hours := rapid.SampledFrom([]string{"*", "2", "1-3", "22-2", "9-17", "0/2"}).Draw(t, "hours")
	expression = strings.Join([]string{field("seconds", 59), field("minutes", 59), hours, "* * ?"}, " ")
	window = mustParse(t, expression, rapid.SampledFrom([]string{"UTC", "Europe/Stockholm", "Australia/Lord_Howe"}).Draw(t, "zone"))
	day := rapid.SampledFrom([]string{
		"2026-03-29T00:00:00Z", "2026-10-25T00:00:00Z", // Stockholm
		"2027-04-03T14:30:00Z", "2027-10-02T15:30:00Z", // Lord Howe
		"2026-11-27T09:00:00Z", "2027-01-01T00:00:00Z",
	}).Draw(t, "day")
	at = mustTime(t, day).Add(time.Duration(rapid.Int64Range(0, 3*3600*1000).Draw(t, "milliseconds")) * time.Millisecond)
	return window, expression, at
}

func TestDueIsNeverEarlyAndAdmitsWhatItHolds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		window, _, now := drawWindow(t)
		at, held, err := window.Due(now)
		require.NoError(t, err)
		require.False(t, at.Before(now))
		require.True(t, window.Admits(at))
		if !at.Equal(now) {
			require.Zero(t, at.Nanosecond())
		}

		// The same push, asking again when it is due.
		again, heldAgain, err := window.Due(at)
		require.NoError(t, err)
		require.True(t, again.Equal(at))
		require.Equal(t, held, heldAgain)

		// A held push that is refused is admitted at the next opening, and
		// not before it.
		if !window.Admits(now) {
			opening, err := window.NextOpening(now)
			require.NoError(t, err)
			require.True(t, window.Admits(opening))
			require.False(t, window.Admits(opening.Add(-time.Millisecond)))
		}
	})
}

// Due against the definition: stretches of matches at most a minute apart,
// found by looking at every second.
func TestDueAgainstTheDefinition(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		window, expression, now := drawWindow(t)
		schedule, err := quartz.Parse(expression)
		require.NoError(t, err)

		// Enough to see three minutes of the stretch around now.
		second := now.Truncate(time.Second)
		var stretch []time.Time
		open := false
		for offset := -5 * 60; offset <= 5*60; offset++ {
			at := second.Add(time.Duration(offset) * time.Second)
			if !schedule.Satisfied(at, window.zone) {
				continue
			}
			if len(stretch) > 0 && at.Sub(stretch[len(stretch)-1]) > time.Minute {
				stretch = nil
			}
			stretch = append(stretch, at)
			first, last := stretch[0], stretch[len(stretch)-1]
			endOfMinute := last.Truncate(time.Minute).Add(time.Minute)
			if last.Sub(first) > time.Minute && !now.Before(first) && now.Before(endOfMinute) {
				open = true
			}
		}

		at, held, err := window.Due(now)
		require.NoError(t, err)
		switch {
		case open:
			require.True(t, held)
			require.True(t, at.Equal(now))
		case schedule.Satisfied(now, window.zone):
			require.False(t, held)
			require.True(t, at.Equal(now))
		default:
			next, err := schedule.Next(now, window.zone)
			require.NoError(t, err)
			require.True(t, at.Equal(next))
		}
	})
}
