package tasks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// An OperatorNote says who has changed a channel last, for the logs of all processes.
type OperatorNote struct {
	// Action is what was done, as a command: "pause", "pace 10 --for 1h0m0s".
	Action string `json:"action"`
	By     string `json:"by"`
	At     Millis `json:"at"`
}

// What is noted apart, so that one does not hide the other.
const (
	NotePause = "pause"
	NotePace  = "pace"
)

// OperatorNotesKey holds the notes of the channel.
func (c Channel) OperatorNotesKey() string { return c.key("operator") }

// WriteOperatorNote notes what is about to be done to a channel's pause or pace.
func WriteOperatorNote(ctx context.Context, client redis.UniversalClient, channel Channel, about string, note OperatorNote) error {
	text, err := json.Marshal(note)
	if err != nil {
		return fmt.Errorf("encode the operator's note: %w", err)
	}
	if err := client.HSet(ctx, channel.OperatorNotesKey(), about, text).Err(); err != nil {
		return fmt.Errorf("note the action: %w", err)
	}
	return nil
}

// ReadOperatorNote returns the latest note about the channel's pause or pace; a zero one
// if there is none, or none that can be read.
func ReadOperatorNote(ctx context.Context, client redis.UniversalClient, channel Channel, about string) (OperatorNote, error) {
	var note OperatorNote
	text, err := client.HGet(ctx, channel.OperatorNotesKey(), about).Bytes()
	switch {
	case errors.Is(err, redis.Nil):
		return note, nil
	case err != nil:
		return note, fmt.Errorf("read an operator's note: %w: %w", ErrUnreadable, err)
	}
	if err := json.Unmarshal(text, &note); err != nil {
		return OperatorNote{}, nil
	}
	return note, nil
}
