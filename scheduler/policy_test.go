package scheduler

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFixedDelay(t *testing.T) {
	t.Parallel()
	finished := time.Date(2026, 11, 27, 9, 0, 0, 123_000_000, time.UTC)
	policy := FixedDelay{Delay: time.Minute}
	for attempt := 1; attempt <= 3; attempt++ {
		require.Equal(t, finished.Add(time.Minute), policy.After(attempt, finished))
	}
}

func TestCeilSecond(t *testing.T) {
	t.Parallel()
	whole := time.Date(2026, 11, 27, 9, 0, 0, 0, time.UTC)
	require.Equal(t, whole, CeilSecond(whole))
	require.Equal(t, whole.Add(time.Second), CeilSecond(whole.Add(time.Nanosecond)))
	require.Equal(t, whole.Add(time.Second), CeilSecond(whole.Add(999_999_999)))
	require.Equal(t, whole.Add(time.Second), CeilSecond(whole.Add(time.Second)))
	before1970 := time.Unix(-10, 1)
	require.Equal(t, int64(-9), CeilSecond(before1970).Unix())
}
