package quartz

import (
	"encoding/csv"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The values in testdata come from org.quartz.CronExpression (2.3.2 and 2.5.2
// agree, but for W, where 2.5 is broken and 2.3.2 counts).
func readCases(t *testing.T, path string) [][]string {
	t.Helper()
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	rows, err := csv.NewReader(file).ReadAll()
	require.NoError(t, err)
	return rows[1:]
}

func TestAgreesWithQuartz(t *testing.T) {
	t.Parallel()
	rows := readCases(t, "testdata/cron_cases.csv")
	require.Len(t, rows, 404)
	for i, row := range rows {
		t.Run(fmt.Sprintf("%d %s", i+2, row[1]), func(t *testing.T) {
			t.Parallel()
			requireCase(t, row[0], row[1], row[2], row[3], row[4])
		})
	}
}

// Where the wall clock repeats an hour, Quartz skips matches that this
// package finds; the last column is what the wall clock says.
func TestMatchesBothPassesOfARepeatedHour(t *testing.T) {
	t.Parallel()
	rows := readCases(t, "testdata/cron_cases_dst_overlap.csv")
	require.Len(t, rows, 36)
	for i, row := range rows {
		t.Run(fmt.Sprintf("%d %s", i+2, row[1]), func(t *testing.T) {
			t.Parallel()
			requireCase(t, row[0], row[1], row[2], row[5], row[4])
		})
	}
}

func requireCase(t *testing.T, zoneName, expression, after, next, satisfied string) {
	t.Helper()
	zone, err := time.LoadLocation(zoneName)
	require.NoError(t, err)
	afterTime, err := time.Parse(time.RFC3339Nano, after)
	require.NoError(t, err)

	schedule, err := Parse(expression)
	if err != nil {
		var parseError *ParseError
		require.ErrorAs(t, err, &parseError)
		require.Equal(t, "ERR", next, "%v", err)
		require.Equal(t, "false", satisfied)
		return
	}
	require.Equal(t, satisfied, fmt.Sprint(schedule.Satisfied(afterTime, zone)))
	got, err := schedule.Next(afterTime, zone)
	if next == "ERR" {
		require.ErrorIs(t, err, ErrNever)
		return
	}
	require.NoError(t, err)
	want, err := time.Parse(time.RFC3339, next)
	require.NoError(t, err)
	require.Equal(t, want.In(zone).String(), got.String())
}
