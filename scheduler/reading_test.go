package scheduler

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/scheduler/quartz"
)

func TestRead(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		expression, at string
		dialect        quartz.Dialect
		kind           Kind
		open           bool
		closes         string
		next           [][2]string // start and end, no end for an instant
	}{
		{"* * 9-17 ? * MON-FRI", "2026-11-27T12:00:00Z", quartz.Quartz, KindWindow, true, "2026-11-27T18:00:00Z",
			[][2]string{{"2026-11-30T09:00:00Z", "2026-11-30T18:00:00Z"}, {"2026-12-01T09:00:00Z", "2026-12-01T18:00:00Z"}}},
		{"* 9-17 * * 1-5", "2026-11-27T18:00:00Z", quartz.Unix, KindWindow, false, "",
			[][2]string{{"2026-11-30T09:00:00Z", "2026-11-30T18:00:00Z"}, {"2026-12-01T09:00:00Z", "2026-12-01T18:00:00Z"}}},
		{"0 * 9-17 * * ?", "2026-11-27T17:59:30Z", quartz.Quartz, KindWindow, true, "2026-11-27T18:00:00Z",
			[][2]string{{"2026-11-28T09:00:00Z", "2026-11-28T18:00:00Z"}, {"2026-11-29T09:00:00Z", "2026-11-29T18:00:00Z"}}},
		{"* * 22-6 * * ?", "2026-11-27T12:00:00Z", quartz.Quartz, KindWindow, false, "",
			[][2]string{{"2026-11-27T22:00:00Z", "2026-11-28T07:00:00Z"}, {"2026-11-28T22:00:00Z", "2026-11-29T07:00:00Z"}}},
		{"0 0/5 9-17 * * ?", "2026-11-27T09:00:00Z", quartz.Quartz, KindInstant, false, "",
			[][2]string{{"2026-11-27T09:05:00Z", ""}, {"2026-11-27T09:10:00Z", ""}}},
		{"*/10 0 9 * * ?", "2026-11-27T09:00:15Z", quartz.Quartz, KindInstant, false, "",
			[][2]string{{"2026-11-28T09:00:00Z", ""}, {"2026-11-29T09:00:00Z", ""}}},
		{"0 0-5,30 9 * * ?", "2026-11-27T09:10:00Z", quartz.Quartz, KindMixed, false, "",
			[][2]string{{"2026-11-27T09:30:00Z", ""}, {"2026-11-28T09:00:00Z", "2026-11-28T09:06:00Z"}}},
		{"* * * ? * *", "2026-11-27T09:10:00Z", quartz.Quartz, KindWindow, true, "", nil},
		{"* * * 31 12 ? 2026", "2026-12-31T09:10:00Z", quartz.Quartz, KindWindow, true, "2027-01-01T00:00:00Z", nil},
		{"* * * ? * * 2027-2029", "2026-12-31T09:10:00Z", quartz.Quartz, KindWindow, false, "",
			[][2]string{{"2027-01-01T00:00:00Z", ""}}},
		{"* * * ? * * 2025", "2026-12-31T09:10:00Z", quartz.Quartz, KindNever, false, "", nil},
	} {
		reading := mustParse(t, test.expression, "UTC").Read(mustTime(t, test.at), 2)
		require.Equal(t, test.dialect, reading.Dialect, test.expression)
		require.Equal(t, test.kind, reading.Kind, test.expression)
		require.Equal(t, test.open, reading.Open, test.expression)
		require.Equal(t, test.closes, formatIfSet(reading.Closes), test.expression)
		var next [][2]string
		for _, opening := range reading.Next {
			next = append(next, [2]string{formatIfSet(opening.Start), formatIfSet(opening.End)})
			if test.kind != KindMixed {
				require.Equal(t, test.kind == KindWindow, opening.Window, test.expression)
			}
		}
		require.Equal(t, test.next, next, test.expression)
	}
}

// Five hours by the wall clock, six or four by the stopwatch.
func TestReadOnDaysOfClockChanges(t *testing.T) {
	t.Parallel()
	window := mustParse(t, "* * 0-4 * * ?", "Europe/Stockholm")
	for at, length := range map[string]time.Duration{
		"2026-03-28T12:00:00+01:00": 4 * time.Hour,
		"2026-10-24T12:00:00+02:00": 6 * time.Hour,
		"2026-11-27T12:00:00+01:00": 5 * time.Hour,
	} {
		opening := window.Read(mustTime(t, at), 1).Next[0]
		require.Equal(t, length, opening.End.Sub(opening.Start), at)
		require.Equal(t, "05:00", opening.End.Format("15:04"))
	}
}

func formatIfSet(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Format(time.RFC3339)
}
