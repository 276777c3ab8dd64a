package quartz

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Days that the two tables of Quartz' own values leave out or hold once.
func TestSpecialDays(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		dayFields string // day-of-month and day-of-week
		year      int
		month     time.Month
		days      []int
	}{
		{"L ?", 2028, time.February, []int{29}},
		{"L ?", 2100, time.February, []int{28}},
		{"L-30 ?", 2026, time.January, []int{1}},
		{"L-30 ?", 2026, time.April, nil},
		{"30 ?", 2026, time.February, nil},
		{"31W ?", 2026, time.April, nil},
		{"29W ?", 2026, time.February, nil},
		{"29W ?", 2028, time.February, []int{29}},
		{"1W ?", 2026, time.August, []int{3}},   // Saturday
		{"1W ?", 2026, time.November, []int{2}}, // Sunday
		{"1W ?", 2026, time.December, []int{1}}, // Tuesday
		{"15W ?", 2026, time.August, []int{14}}, // Saturday
		{"15W ?", 2026, time.November, []int{16}},
		{"31W ?", 2026, time.May, []int{29}}, // Sunday, the last day
		{"LW ?", 2026, time.May, []int{29}},
		{"LW ?", 2026, time.October, []int{30}}, // Saturday
		{"L-1W ?", 2026, time.May, []int{29}},   // Saturday the 30th
		{"L-30W ?", 2026, time.August, []int{3}},
		{"? L", 2026, time.November, []int{7, 14, 21, 28}},
		{"? FRIL", 2026, time.November, []int{27}},
		{"? SUNL", 2026, time.November, []int{29}},
		{"? 2L", 2026, time.November, []int{30}},
		{"? SUN#1", 2026, time.November, []int{1}},
		{"? SUN#5", 2026, time.November, []int{29}},
		{"? FRI#5", 2026, time.November, nil},
		{"? MON#5", 2026, time.November, []int{30}},
		{"? SAT,SUN", 2026, time.November, []int{1, 7, 8, 14, 15, 21, 22, 28, 29}},
	} {
		dayOfMonth, dayOfWeek, _ := strings.Cut(test.dayFields, " ")
		schedule := mustParse(t, "0 0 0 "+dayOfMonth+" * "+dayOfWeek)
		var days []int
		matching := schedule.daysIn(test.year, test.month)
		for day := 1; day <= 31; day++ {
			if matching.has(day) {
				days = append(days, day)
			}
		}
		require.Equal(t, test.days, days, "%s in %s %d", test.dayFields, test.month, test.year)
	}
}

func TestShapeOfAMonth(t *testing.T) {
	t.Parallel()
	for day := time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC); day.Year() <= 2199; day = day.AddDate(0, 0, 1) {
		month := shapeOf(day.Year(), day.Month())
		require.Equal(t, int(day.Weekday()), month.weekday(day.Day()))
		require.Equal(t, day.Day() == month.length, day.AddDate(0, 0, 1).Day() == 1)
	}
}
