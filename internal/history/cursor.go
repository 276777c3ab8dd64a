package history

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"

	"pushq/tasks"
)

// ErrCursor means that a cursor was not made by Search.
var ErrCursor = errors.New("not a cursor of a search")

// A cursor is the last push of a page. It continues any search.
type cursor struct {
	CreatedAt tasks.Millis `json:"createdAt"`
	ID        string       `json:"id"`
}

func encodeCursor(push tasks.Push) string {
	text, _ := json.Marshal(cursor{push.CreatedAt, push.ID}) // numbers and strings always encode
	return base64.RawURLEncoding.EncodeToString(text)
}

func decodeCursor(text string) (cursor, error) {
	decoded, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return cursor{}, fmt.Errorf("%w: %w", ErrCursor, err)
	}
	var read cursor
	if err := json.Unmarshal(decoded, &read); err != nil {
		return cursor{}, fmt.Errorf("%w: %w", ErrCursor, err)
	}
	if encodeCursor(tasks.Push{ID: read.ID, CreatedAt: read.CreatedAt}) != text || read.ID != storable(read.ID) || !known(read.CreatedAt) {
		return cursor{}, ErrCursor // holds more than Search wrote
	}
	return read, nil
}
