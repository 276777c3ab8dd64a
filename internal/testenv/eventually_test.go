package testenv

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestEventually(t *testing.T) {
	t.Parallel()
	calls := 0
	Eventually(t, 10*time.Second, "the third call", func() bool { calls++; return calls == 3 })
	require.Equal(t, 3, calls)

	failed, said := failing(t, func(t testing.TB) {
		eventually(t, 30*time.Millisecond, "the end of time", func() bool { return false })
	})
	require.True(t, failed)
	require.Equal(t, "waited 30ms in vain for: the end of time", said)
}

func TestEventuallyJudgesOnceMoreAfterTheTimeout(t *testing.T) {
	t.Parallel()
	eventually(t, 0, "a condition that is true from the start", func() bool { return true })
}

func TestEventuallyNoError(t *testing.T) {
	t.Parallel()
	calls := 0
	check := func() error {
		calls++
		if calls < 3 {
			return fmt.Errorf("call %d", calls)
		}
		return nil
	}
	EventuallyNoError(t, 10*time.Second, check)
	require.Equal(t, 3, calls)

	failed, said := failing(t, func(t testing.TB) {
		eventuallyNoError(t, 30*time.Millisecond, func() error { calls++; return fmt.Errorf("call %d", calls) })
	})
	require.True(t, failed)
	require.Equal(t, fmt.Sprintf("after 30ms still: call %d", calls), said)
}
