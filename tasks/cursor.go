package tasks

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
)

// ErrCursor means that a cursor was not made by the same call (List, RetryAll or
// CancelAll), or for another channel, state or filter.
var ErrCursor = errors.New("not a cursor of this listing")

// A position is where a listing stands in one source: in a list, the number of
// entries already returned; in a sorted set, the last score returned and how
// many entries with it.
type position struct {
	Score *float64 `json:"score,omitempty"`
	Skip  int64    `json:"skip,omitempty"`
}

type cursor struct {
	Channel   string     `json:"channel"`
	State     State      `json:"state"`
	Positions []position `json:"positions"`
}

func encodeCursor(channel Channel, state State, positions []position) string {
	text, _ := json.Marshal(cursor{channel.Name, state, positions}) // numbers and strings always encode
	return base64.RawURLEncoding.EncodeToString(text)
}

// decodeCursor returns the start for an empty text.
func decodeCursor(text string, channel Channel, state State, sources int) ([]position, error) {
	if text == "" {
		return make([]position, sources), nil
	}
	decoded, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCursor, err)
	}
	var read cursor
	if err := json.Unmarshal(decoded, &read); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCursor, err)
	}
	if encodeCursor(Channel{read.Channel}, read.State, read.Positions) != text {
		return nil, ErrCursor // holds more than List wrote
	}
	if read.Channel != channel.Name || read.State != state || len(read.Positions) != sources {
		return nil, fmt.Errorf("%w: it belongs to channel %q, status %q", ErrCursor, read.Channel, read.State)
	}
	for _, position := range read.Positions {
		if position.Skip < 0 || position.Skip > maxSkip {
			return nil, ErrCursor
		}
	}
	return read.Positions, nil
}

// maxSkip bounds what a forged cursor can make Redis walk over.
const maxSkip = 10_000_000
