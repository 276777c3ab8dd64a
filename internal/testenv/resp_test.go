package testenv

import (
	"bufio"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

func TestReadValue(t *testing.T) {
	t.Parallel()
	values := []string{
		"+OK\r\n", "-ERR no\r\n", ":42\r\n", "_\r\n", "#t\r\n", ",1.5\r\n", "(123\r\n", "PING\r\n", "\r\n",
		"$0\r\n\r\n", "$5\r\nhello\r\n", "$7\r\na\r\n$1\r\n\r\n", "$-1\r\n", "=7\r\ntxt:abc\r\n", "!5\r\nERR x\r\n",
		"*0\r\n", "*-1\r\n", "*2\r\n$4\r\nincr\r\n$1\r\nk\r\n", "*2\r\n*1\r\n:1\r\n*2\r\n$1\r\na\r\n$-1\r\n",
		"~2\r\n:1\r\n:2\r\n", ">2\r\n+message\r\n$1\r\na\r\n", "%2\r\n+a\r\n:1\r\n+b\r\n*1\r\n:2\r\n",
		"|1\r\n+ttl\r\n:3\r\n$1\r\nv\r\n",
	}
	stream := strings.Join(values, "")
	for name, source := range map[string]io.Reader{
		"in one read":         strings.NewReader(stream),
		"split at every byte": iotest.OneByteReader(strings.NewReader(stream)),
	} {
		reader := bufio.NewReader(source)
		for _, value := range values {
			read, err := readValue(reader)
			require.NoError(t, err, name)
			require.Equal(t, value, string(read), name)
		}
		_, err := readValue(reader)
		require.ErrorIs(t, err, io.EOF, name)
	}
}

func TestReadValueThatIsNone(t *testing.T) {
	t.Parallel()
	for _, stream := range []string{"", "+OK", "$x\r\n", "*x\r\n", "$5\r\nhel", "*2\r\n:1\r\n", "*1\r\n$x\r\n"} {
		_, err := readValue(bufio.NewReader(strings.NewReader(stream)))
		require.Error(t, err, "%q", stream)
	}
}

func TestHasBulkString(t *testing.T) {
	t.Parallel()
	request := []byte("*3\r\n$3\r\nset\r\n$3\r\nkey\r\n$8\r\nget incr\r\n")
	for marker, want := range map[string]bool{"set": true, "key": true, "get incr": true, "get": false, "incr": false, "SET": false} {
		require.Equal(t, want, hasBulkString(request, marker), marker)
	}
}
