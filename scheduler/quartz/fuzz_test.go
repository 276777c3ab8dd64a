package quartz

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Whatever the text, it is parsed or refused, and searched, in a moment.
func FuzzParseNext(f *testing.F) {
	for _, expression := range []string{
		"", "@daily", "* * * * *", "* * * * * ?",
		"0 0 0 30 2 ?", "0 0 0 29 2 ?", "0 0 0 ? 2 2#5 2027", "0 0 0 ? 2 1#5",
		"0 50-10 * * * ?", "* * 9-17 ? NOV-FEB MON-FRI", "* * 22-6 ? * FRI-MON", "0 0 0 25-5/2 * ?",
		"0 30 2 ? 3 1L", "30 59 * 31 12 ? 2040/4",
		"0 0 0 L-1W * ?", "0 0 0 LW * ?", "0 0 0 15W * ?", "0 0 0 ? * FRIL", "0 0 0 1 1 ? 1-99999999",
		"0 0 13 * 5", "*/5 9-17 1-7 * mon", "TZ=UTC * * * * *", "0 0 0 ? * \u017fUN",
		"* * * ? * * *,*,*,*,*,*,*,*,*,*,*,*,*,*,*,*,*,*,*,*,*,*,*,*,*,*,*,*,*,*,*,*,*,*,*,*,*,*,*,*,*,*,*,*,*,*,*,*,*,*,*,*,*,*",
	} {
		f.Add(expression, int64(1_795_000_000))
		f.Add(expression, time.Date(2040, 12, 31, 12, 0, 0, 0, time.UTC).Unix())
	}
	zone := mustLoad(f, "Europe/Stockholm")

	f.Fuzz(func(t *testing.T, expression string, after int64) {
		const enough = 50 * time.Millisecond
		var took time.Duration
		// A busy machine may be slow once; a slow expression is slow always.
		for range 3 {
			start := time.Now()
			checkParseNext(t, expression, time.Unix(after, 0), zone)
			if took = time.Since(start); took <= enough {
				return
			}
		}
		require.LessOrEqual(t, took, enough)
	})
}

func checkParseNext(t *testing.T, expression string, after time.Time, zone *time.Location) {
	schedule, err := Parse(expression)
	if err != nil {
		var parseError *ParseError
		require.ErrorAs(t, err, &parseError)
		require.NotEmpty(t, parseError.Reason)
		return
	}
	require.LessOrEqual(t, len(expression), MaxLength)
	next, err := schedule.Next(after, zone)
	if err != nil {
		require.True(t, errors.Is(err, ErrNever))
		return
	}
	require.True(t, next.After(after))
	require.True(t, schedule.Satisfied(next, zone))
	again, err := schedule.Next(next.Add(-time.Second), zone)
	require.NoError(t, err)
	require.True(t, again.Equal(next))
}
