package rabbitmq

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// inHand is what a consumer has been given and has not acknowledged. It is safe for
// concurrent use.
type inHand struct {
	mutex    sync.Mutex
	messages map[*held]struct{}
}

// A held message is one in hand.
type held struct {
	since time.Time
	err   error // of the last call of Handle that has ended, nil before
}

func (h *inHand) add() *held {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.messages == nil {
		h.messages = make(map[*held]struct{})
	}
	one := &held{since: time.Now()}
	h.messages[one] = struct{}{}
	return one
}

func (h *inHand) failed(one *held, err error) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	one.err = err
}

func (h *inHand) remove(one *held) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	delete(h.messages, one)
}

// longest returns the message that has been in hand longest, as it is now, and whether
// there is one.
func (h *inHand) longest() (longest held, found bool) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	for one := range h.messages {
		if !found || one.since.Before(longest.since) {
			longest, found = *one, true
		}
	}
	return longest, found
}

// An OverdueError says that a message has been in hand for so long that something must be
// wrong with it, or with what takes messages.
type OverdueError struct {
	InHand time.Duration
	Cause  error // why it could not be handled the last time; nil if Handle has not returned
}

func (e *OverdueError) Error() string {
	text := fmt.Sprintf("a message has been in hand for %s", e.InHand.Round(time.Second))
	if e.Cause == nil {
		return text + " and is still being taken"
	}
	cause, _, _ := strings.Cut(e.Cause.Error(), "\n") // without the stack of a panic
	return text + " and cannot be taken: " + cause
}

func (e *OverdueError) Unwrap() error { return e.Cause }
