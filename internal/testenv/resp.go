package testenv

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strconv"
)

// readValue reads one value of the Redis protocol (RESP 2 or 3) and returns its
// bytes as they were on the wire. A line that begins like no value with a
// length, such as an inline command, is a value of its own.
func readValue(reader *bufio.Reader) ([]byte, error) {
	return appendValue(nil, reader)
}

func appendValue(value []byte, reader *bufio.Reader) ([]byte, error) {
	line, err := reader.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	value = append(value, line...)

	switch line[0] {
	case '$', '=', '!': // bulk string, verbatim string, bulk error
		length, err := lengthOf(line)
		if err != nil || length < 0 {
			return value, err
		}
		start := len(value)
		value = append(value, make([]byte, length+len("\r\n"))...)
		_, err = io.ReadFull(reader, value[start:])
		return value, err
	case '*', '~', '>', '%', '|': // array, set, push, map, attributes
		count, err := lengthOf(line)
		if err != nil {
			return nil, err
		}
		switch line[0] {
		case '%':
			count *= 2
		case '|':
			count = 2*count + 1 // the value that has the attributes follows
		}
		for range max(count, 0) {
			if value, err = appendValue(value, reader); err != nil {
				return nil, err
			}
		}
	}
	return value, nil
}

// lengthOf reads the number in the first line of a value; -1 stands for null.
func lengthOf(line []byte) (int, error) {
	length, err := strconv.Atoi(string(bytes.TrimRight(line[1:], "\r\n")))
	if err != nil {
		return 0, fmt.Errorf("read a Redis value: %w", err)
	}
	return length, nil
}

// hasBulkString tells whether one of the strings in a request is exactly s.
func hasBulkString(request []byte, s string) bool {
	return bytes.Contains(request, fmt.Appendf(nil, "$%d\r\n%s\r\n", len(s), s))
}

// isPush tells whether a value is sent by the server of its own accord.
func isPush(value []byte) bool { return value[0] == '>' }

// isUnknownScript tells whether a reply says that the script was not executed.
func isUnknownScript(reply []byte) bool { return bytes.HasPrefix(reply, []byte("-NOSCRIPT")) }
