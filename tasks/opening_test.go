package tasks

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/scheduler/quartz"
)

func TestOpening(t *testing.T) {
	t.Parallel()
	tokyo, err := time.LoadLocation("Asia/Tokyo")
	require.NoError(t, err)
	at := func(hour int) time.Time { return time.Date(2040, 1, 4, hour, 0, 0, 0, time.UTC) }
	held := Push{CronExpression: "* * 9-17 ? * *", Held: true}
	inTokyo := held
	inTokyo.TimeZone = "Asia/Tokyo"
	due := held
	due.DueAt = MillisOf(at(30))
	instant := Push{CronExpression: "0 0 9 * * ?", DueAt: MillisOf(at(9))}
	for name, test := range map[string]struct {
		push     Push
		zone     *time.Location
		at, want time.Time
	}{
		"no window":              {Push{}, time.UTC, at(3), at(3)},
		"open":                   {held, time.UTC, at(9), at(9)},
		"before the window":      {held, time.UTC, at(3), at(9)},
		"after the window":       {held, time.UTC, at(20), at(33)},
		"in the given zone":      {held, tokyo, at(10), at(24)},
		"in the push's own zone": {inTokyo, time.UTC, at(10), at(24)},
		"not due yet":            {due, time.UTC, at(10), at(30)},
		"before its instant":     {instant, time.UTC, at(3), at(9)},
		"after its instant":      {instant, time.UTC, at(12), at(12)},
	} {
		opening, err := test.push.Opening(test.at, test.zone)
		require.NoError(t, err, name)
		require.True(t, test.want.Equal(opening), "%s: %s", name, opening)
	}

	_, err = Push{CronExpression: "* * * * * ? 2039", Held: true}.Opening(at(3), time.UTC)
	require.ErrorIs(t, err, quartz.ErrNever)
	_, err = Push{CronExpression: "61 * * * * ?", Held: true}.Opening(at(3), time.UTC)
	require.Error(t, err)
	_, err = Push{CronExpression: "* * * * * ?", TimeZone: "Mars/Olympus", Held: true}.Opening(at(3), time.UTC)
	require.Error(t, err)
}
