package rabbitmq

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWhatIsSaidOfAMessageInHandForLong(t *testing.T) {
	t.Parallel()
	require.EqualError(t, &OverdueError{InHand: 31400 * time.Millisecond}, "a message has been in hand for 31s and is still being taken")
	cause := errors.New("panic: on purpose\ngoroutine 1 [running]:")
	err := &OverdueError{InHand: time.Minute, Cause: cause}
	require.EqualError(t, err, "a message has been in hand for 1m0s and cannot be taken: panic: on purpose")
	require.ErrorIs(t, err, cause)
}
