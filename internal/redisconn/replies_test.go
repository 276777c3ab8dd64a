package redisconn

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Wherever the network cuts them.
func TestErrorsAmongReplies(t *testing.T) {
	t.Parallel()
	const stream = "+OK\r\n" +
		"-READONLY You can't write\r\n" +
		"$14\r\n\r\n-ERR fake\r\n\r\n\r\n" + // what somebody has stored
		"$0\r\n\r\n" + "$-1\r\n" +
		":-12\r\n" +
		"*3\r\n$4\r\n-ERR\r\n-ERR in an array\r\n*-1\r\n" +
		"-LAST\r\n"
	want := []string{"READONLY You can't write", "ERR in an array", "LAST"}
	for first := range len(stream) {
		for second := first; second < len(stream); second++ {
			var found replies
			var errors []string
			for _, piece := range []string{stream[:first], stream[first:second], stream[second:]} {
				errors = slices.AppendSeq(errors, found.errors([]byte(piece)))
			}
			require.Equal(t, want, errors, "cut at %d and %d", first, second)
		}
	}
}

func TestALongErrorIsCut(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 3*maxReplyLine)
	var found replies
	var errors []string
	for piece := range slices.Chunk([]byte("-"+long+"\r\n-ERR next\r\n"), 100) {
		errors = slices.AppendSeq(errors, found.errors(piece))
	}
	require.Len(t, errors, 2)
	require.True(t, strings.HasPrefix(long, errors[0]))
	require.Less(t, len(errors[0]), maxReplyLine)
	require.Equal(t, "ERR next", errors[1])
}
