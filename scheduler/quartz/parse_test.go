package quartz

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ expression, field, reason string }{
		{"", "", "is empty"},
		{" \t ", "", "is empty"},
		{"tomorrow", "", "has one field; 5 (Unix cron), 6 or 7 (Quartz) are needed"},
		{"* *", "", "has 2 fields; 5 (Unix cron), 6 or 7 (Quartz) are needed"},
		{"* * * * ? * * *", "", "has 8 fields"},
		{strings.Repeat(",", 10<<10), "", "is 10240 bytes long, at most 120 are allowed"},
		{strings.Repeat(" ", MaxLength) + "*", "", "is 121 bytes long"},
		{"@daily", "", "must not be a shortcut such as @daily"},
		{"@every 1h", "", "must not be a shortcut such as @daily"},
		{"TZ=Europe/Stockholm * * * * *", "", "must not name the time zone"},
		{"CRON_TZ=UTC 0 0 12 * * ?", "", "must not name the time zone"},
		// Upper-casing would make S and I of these two.
		{"0 0 0 ? * \u017fUN", "", "has a character at byte 11 that is not ASCII"},
		{"0 0 0 ? * FR\u0131", "", "has a character at byte 13 that is not ASCII"},
		{"* * * * * *", "", "must have ? in exactly one of day-of-month"},
		{"0 0 12 * * *", "", "must have ? in exactly one of day-of-month"},
		{"0 0 12 ? * ?", "", "must have ? in exactly one of day-of-month"},
		{"0 0 12 1 * MON", "", "must have ? in exactly one of day-of-month"},

		{"60 * * * * ?", "seconds", "60 is not in the range 0 to 59"},
		{"? * * * * ?", "seconds", `"?" is not understood`},
		{"5/X * * * * ?", "seconds", `"X" is not understood`},
		{"*/0 * * * * ?", "seconds", "0 is not in the range 1 to 59"},
		{"*/60 * * * * ?", "seconds", "60 is not in the range 1 to 59"},
		{"5/60 * * * * ?", "seconds", "60 is not in the range 1 to 59"},
		{"*/ * * * * ?", "seconds", "a number is missing"},
		{"/5 * * * * ?", "seconds", `"/5" has no start: write */5`},
		{"1- * * * * ?", "seconds", "a number is missing"},
		{"- * * * * ?", "seconds", "a number is missing"},
		{"1,,15 * * * * ?", "seconds", "an item of the list is empty"},
		{",5 * * * * ?", "seconds", "an item of the list is empty"},
		{"5, * * * * ?", "seconds", "an item of the list is empty"},
		{"99 * * * * ?", "seconds", "99 is not in the range 0 to 59"},
		{"0\n * * * * ?", "seconds", `"0\n" is not understood`},
		{"* 1-5-7 * * * ?", "minutes", `"5-7" is not understood`},
		{"* *5 * * * ?", "minutes", `"*5" is not understood`},
		{"* 1.5 * * * ?", "minutes", `"1.5" is not understood`},
		{"* +5 * * * ?", "minutes", `"+5" is not understood`},
		{"* */5/5 * * * ?", "minutes", `"5/5" is not understood`},
		{"* 12X * * * ?", "minutes", `"12X" is not understood`},
		{"* 1-99999999 * * * ?", "minutes", "99999999 is not in the range 0 to 59"},
		{"* 18446744073709551617 * * * ?", "minutes", "18446744073709551617 is not in the range"},
		{"* 1-5/99999 * * * ?", "minutes", "99999 is not in the range 1 to 9999"},
		{"* * 24 * * ?", "hours", "24 is not in the range 0 to 23"},
		{"* * 9:00 * * ?", "hours", `"9:00" is not understood`},
		{"0 0 0/24 * * ?", "hours", "24 is not in the range 1 to 23"},

		{"0 0 0 0 * ?", "day-of-month", "0 is not in the range 1 to 31"},
		{"0 0 0 32W * ?", "day-of-month", "32 is not in the range 1 to 31"},
		{"0 0 0 W * ?", "day-of-month", "a number is missing"},
		{"0 0 0 15L * ?", "day-of-month", `"15L" is not understood`},
		{"0 0 0 L-31 * ?", "day-of-month", "31 is not in the range 0 to 30"},
		{"0 0 0 L- * ?", "day-of-month", "a number is missing"},
		{"0 0 0 L3 * ?", "day-of-month", `"L3" is not understood`},
		{"0 0 0 WL * ?", "day-of-month", `"WL" is not understood`},
		{"0 0 0 15,L * ?", "day-of-month", "L and W cannot be part of a list"},
		{"0 0 0 1,? * ?", "day-of-month", `"?" is not understood`},
		{"0 0 0 ?5 * ?", "day-of-month", `"?5" is not understood`},
		{"0 0 0 1 0 ?", "month", "0 is not in the range 1 to 12"},
		{"0 0 0 1 JANU ?", "month", `"JANU" is not understood`},
		{"0 0 0 1 L ?", "month", `"L" is not understood`},
		{"0 0 0 1 1-MAR ?", "month", `"1-MAR": a range needs two numbers or two names`},
		{"0 0 0 1 JAN/3 ?", "month", `"JAN/3": a step needs numbers, not names`},
		{"0 0 0 ? * 0", "day-of-week", "0 is not in the range 1 to 7"},
		{"0 0 0 ? * 8#2", "day-of-week", "8 is not in the range 1 to 7"},
		{"0 0 0 ? * MON#0", "day-of-week", "0 is not in the range 1 to 5"},
		{"0 0 0 ? * MON#6", "day-of-week", "6 is not in the range 1 to 5"},
		{"0 0 0 ? * MON#", "day-of-week", "a number is missing"},
		{"0 0 0 ? * 6#3L", "day-of-week", `"6#3L" is not understood`},
		{"0 0 0 ? * 2-6L", "day-of-week", `"2-6" is not understood`},
		{"0 0 0 ? * FRI#2,MON", "day-of-week", "L and # cannot be part of a list"},
		{"0 0 0 ? * MON-FRI/2", "day-of-week", `"MON-FRI/2": a step needs numbers, not names`},
		{"0 0 0 ? * MON-5", "day-of-week", `"MON-5": a range needs two numbers or two names`},
		{"0 0 0 ? * 3W", "day-of-week", `"3W" is not understood`},
		{"0 0 0 ? * MONX", "day-of-week", `"MONX" is not understood`},
		{"0 0 0 1 1 ? 1969", "year", "1969 is not in the range 1970 to 2199"},
		{"0 0 0 1 1 ? 2200", "year", "2200 is not in the range 1970 to 2199"},
		{"0 0 0 1 1 ? 2030-2026", "year", `the range "2030-2026" runs backwards`},
		{"0 0 0 1 1 ? ?", "year", `"?" is not understood`},
		{"0 0 0 1 1 ? L", "year", `"L" is not understood`},

		{"60 * * * *", "minutes", "60 is not in the range 0 to 59"},
		{"* 22-6 * * *", "hours", `the range "22-6" runs backwards`},
		{"* * ? * *", "day-of-month", `"?" is not understood`},
		{"* * L * *", "day-of-month", `"L" is not understood`},
		{"* * 15W * *", "day-of-month", `"15W" is not understood`},
		{"* * * NOV-FEB *", "month", `the range "NOV-FEB" runs backwards`},
		{"* * * * 8", "day-of-week", "8 is not in the range 0 to 7"},
		{"* * * * ?", "day-of-week", `"?" is not understood`},
		{"* * * * FRIL", "day-of-week", `"FRIL" is not understood`},
		{"* * * * 5#3", "day-of-week", `"5#3" is not understood`},
		{"* * * * FRI-SUN", "day-of-week", `the range "FRI-SUN" runs backwards`},
	} {
		schedule, err := Parse(test.expression)
		require.Nil(t, schedule, test.expression)
		var parseError *ParseError
		require.ErrorAs(t, err, &parseError, test.expression)
		require.Equal(t, test.field, parseError.Field, test.expression)
		require.Contains(t, parseError.Reason, test.reason, test.expression)
	}
}

func TestParseErrorNamesTheField(t *testing.T) {
	t.Parallel()
	require.EqualError(t, &ParseError{Field: "hours", Reason: "24 is too much"}, "has a mistake in hours: 24 is too much")
	require.EqualError(t, &ParseError{Reason: "is empty"}, "is empty")
}

// Each line holds expressions that mean the same.
func TestParseReadsAlike(t *testing.T) {
	t.Parallel()
	for _, alike := range [][]string{
		{"0 0 12 ? * MON-FRI", "0 0 12 ? * mon-fri", "0 0 12 ? * 2-6", "0 0 12 ? * Monday-Friday", "0 0 12 ? * 2,3,4,5,6", "\t0  0 12 ? *\tMON-FRI *  "},
		{"0 0 12 1 JAN ?", "0 0 12 1 january ?", "0 0 12 1 1 ?", "00 0 012 01 01 ? *"},
		{"0 0 22-4/2 * * ?", "0 0 22,0,2,4 * * ?"},
		{"0 0 0 25-5 * ?", "0 0 0 1-5,25-31 * ?"},
		{"0 5/15 * * * ?", "0 5,20,35,50 * * * ?"},
		{"0 */20 0 * * ?", "0 0,20,40 0 * * ?"},
		{"0 1-5/30 0 * * ?", "0 1 0 * * ?"},
		{"0 0 0 ? * L", "0 0 0 ? * SAT", "0 0 0 ? * 7"},
		{"0 0 0 ? * 6L", "0 0 0 ? * FRIL", "0 0 0 ? * fridayl"},
		{"0 0 0 ? * 6#3", "0 0 0 ? * FRI#3", "0 0 0 ? * Friday#3"},
		{"0 0 0 L * ?", "0 0 0 L-0 * ?"},
		{"0 0 0 1 1 ? 2026/2", "0 0 0 1 1 ? 2026-2199/2"},
		{"* 9-17 * * 1-5", "* 9-17 * * MON-FRI", "*  9-17 * *\tmonday-friday"},
		{"* * * * 0", "* * * * 7", "* * * * SUN", "* * * * 7/7"},
		{"* * * * 5-7", "* * * * FRI,SAT,SUN"},
		{"* * * * *", "0-59 0-23 * 1-12 *", "* * * * */1"},
		{"0 0 * * 2/2", "0 0 * * 2,4,6"},
	} {
		want, err := Parse(alike[0])
		require.NoError(t, err)
		for _, expression := range alike[1:] {
			got, err := Parse(expression)
			require.NoError(t, err, expression)
			require.Equal(t, want, got, "%s is not %s", expression, alike[0])
		}
	}
}

func TestDialect(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		expression  string
		dialect     Dialect
		first, last int
	}{
		{"* 9-17 * * 1-5", Unix, 0, 59},
		{"0 9 * * *", Unix, 0, 59},
		{"0 0 9 * * ?", Quartz, 0, 0},
		{"10-50/20 0 9 * * ? 2030", Quartz, 10, 50},
		{"50-10 0 9 * * ?", Quartz, 0, 59},
	} {
		schedule, err := Parse(test.expression)
		require.NoError(t, err)
		require.Equal(t, test.dialect, schedule.Dialect(), test.expression)
		first, last := schedule.Seconds()
		require.Equal(t, []int{test.first, test.last}, []int{first, last}, test.expression)
	}
}

func TestUnixCron(t *testing.T) {
	t.Parallel()
	// 27 November 2026 is a Friday.
	for _, test := range []struct{ expression, after, next string }{
		{"* 9-17 * * 1-5", "2026-11-27T17:59:58Z", "2026-11-27T17:59:59Z"},
		{"* 9-17 * * 1-5", "2026-11-27T17:59:59Z", "2026-11-30T09:00:00Z"},
		{"0 9 * * *", "2026-11-27T09:00:58Z", "2026-11-27T09:00:59Z"},
		{"0 9 * * *", "2026-11-27T09:00:59Z", "2026-11-28T09:00:00Z"},
		{"*/15 9 * * *", "2026-11-27T09:00:59Z", "2026-11-27T09:15:00Z"},
		{"0 0 * * 0", "2026-11-27T12:00:00Z", "2026-11-29T00:00:00Z"},
		{"0 0 * * 7", "2026-11-27T12:00:00Z", "2026-11-29T00:00:00Z"},
		{"0 0 29 2 *", "2026-11-27T12:00:00Z", "2028-02-29T00:00:00Z"},
		// Two restricted day fields: one is enough.
		{"0 0 13 * 5", "2026-11-27T12:00:00Z", "2026-12-04T00:00:00Z"},
		{"0 0 13 * 5", "2026-12-11T12:00:00Z", "2026-12-13T00:00:00Z"},
		// A field that begins with a star does not count as restricted.
		{"0 0 */10 * 5", "2026-11-27T12:00:00Z", "2026-12-11T00:00:00Z"},
		{"0 0 13 * */7", "2026-11-27T12:00:00Z", "2026-12-13T00:00:00Z"},
		{"0 0 13 * *", "2026-11-27T12:00:00Z", "2026-12-13T00:00:00Z"},
	} {
		after, err := time.Parse(time.RFC3339, test.after)
		require.NoError(t, err)
		schedule, err := Parse(test.expression)
		require.NoError(t, err)
		next, err := schedule.Next(after, time.UTC)
		require.NoError(t, err)
		require.Equal(t, test.next, next.Format(time.RFC3339), "%s after %s", test.expression, test.after)
	}
}
