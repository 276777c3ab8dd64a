package testenv

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFastest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		slower := func() { calls++; time.Sleep(time.Duration(10-calls) * time.Second) }
		require.Equal(t, 6*time.Second, Fastest(10, 7*time.Second, slower))
		require.Equal(t, 4, calls)
		calls = 0
		require.Equal(t, 7*time.Second, Fastest(3, time.Second, slower))
		require.Equal(t, 3, calls)
	})
}
