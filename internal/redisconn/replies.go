package redisconn

import (
	"bytes"
	"iter"
	"strconv"
)

// maxReplyLine is how much of a line is looked at; longer ones are errors that
// quote what they got.
const maxReplyLine = 512

// replies finds the errors in what a server sends (RESP 2), in whatever pieces it
// arrives.
type replies struct {
	line []byte // the beginning of a line whose end has not arrived
	skip int    // bytes of a string that are still to come
}

// errors are the texts of the errors whose ends are in the piece. The whole of it
// must be iterated over.
func (r *replies) errors(piece []byte) iter.Seq[string] {
	return func(yield func(string) bool) {
		for len(piece) > 0 {
			if r.skip > 0 {
				skipped := min(r.skip, len(piece))
				r.skip -= skipped
				piece = piece[skipped:]
				continue
			}
			end := bytes.IndexByte(piece, '\n')
			if end < 0 {
				r.keep(piece)
				return
			}
			line := piece[:end]
			if len(r.line) > 0 {
				r.keep(line)
				line = r.line
			}
			text, isError := r.read(bytes.TrimSuffix(line, []byte("\r")))
			r.line, piece = r.line[:0], piece[end+1:]
			if isError && !yield(text) {
				return
			}
		}
	}
}

func (r *replies) keep(piece []byte) {
	r.line = append(r.line, piece[:min(len(piece), maxReplyLine-len(r.line))]...)
}

// read takes a whole line. What is in an array comes as a line of its own.
func (r *replies) read(line []byte) (text string, isError bool) {
	if len(line) == 0 {
		return "", false
	}
	switch line[0] {
	case '-':
		return string(line[1:min(len(line), maxReplyLine)]), true
	case '$':
		if length, err := strconv.Atoi(string(line[1:])); err == nil && length >= 0 {
			r.skip = length + len("\r\n")
		}
	}
	return "", false
}
