package api

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"pushq/tasks"
)

// ndjsonMediaType is one JSON text a line.
const ndjsonMediaType = "application/x-ndjson"

// splitArray returns the elements of a JSON array as they were sent, and stops
// after one more than limit. Only the array itself must be right: what is wrong
// with an element is said at its place.
func splitArray(body []byte, limit int) (items [][]byte, err error) {
	decoder := jsontext.NewDecoder(bytes.NewBuffer(body), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	start, err := decoder.ReadToken()
	if err != nil {
		return nil, syntaxProblem(err)
	}
	if start.Kind() != '[' {
		return nil, invalid("There must be one JSON array of pushes.")
	}
	for decoder.PeekKind() != ']' {
		value, err := decoder.ReadValue()
		if err != nil {
			return nil, syntaxProblem(err)
		}
		end := decoder.InputOffset()
		if items = append(items, body[end-int64(len(value)):end]); len(items) > limit {
			return items, nil
		}
	}
	if _, err := decoder.ReadToken(); err != nil {
		return nil, syntaxProblem(err)
	}
	if _, err := decoder.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, invalid("There is something after the JSON array.")
	}
	return items, nil
}

// splitLines returns the lines that are not blank, and stops after one more
// than limit. The last one needs no line break.
func splitLines(body []byte, limit int) (items [][]byte, err error) {
	for line := range bytes.Lines(body) {
		if line = bytes.Trim(line, " \t\r\n"); len(line) == 0 {
			continue
		}
		if items = append(items, line); len(items) > limit {
			break
		}
	}
	return items, nil
}

// decodeItem reads one push of a batch, which may have an idempotency key of
// its own.
func (s *Server) decodeItem(item []byte, caller string) (push tasks.Push, keyed bool, err error) {
	if int64(len(item)) > s.MaxBodyBytes {
		return push, false, newProblem(http.StatusRequestEntityTooLarge, "too-large", "Too large",
			fmt.Sprintf("The push is longer than %d bytes.", s.MaxBodyBytes))
	}
	var key string
	push, err = decodePush(item, pushField{"idempotencyKey", &key, false})
	switch {
	case err != nil:
		return push, false, err
	case key == "":
		push.ID = tasks.NewID()
		return push, false, nil
	case !isIdempotencyKey(key):
		return push, false, invalid("", fieldError{"idempotencyKey",
			fmt.Sprintf("must have 1 to %d visible ASCII characters", maxIdempotencyKey)})
	}
	push.ID = tasks.KeyedID(caller, key)
	return push, true, nil
}
