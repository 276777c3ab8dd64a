package api

import (
	"context"
	"fmt"
	"time"
)

// Slots bound how many requests of a kind are under way, and with that the memory
// that they need. Of several API keys none has all of them.
type slots struct {
	what     string // the requests, in words
	patience time.Duration
	all      chan struct{}
	shares   map[string]chan struct{} // by the name of the key, "" without keys
}

func newSlots(what string, count int, keys map[string]string, patience time.Duration) slots {
	s := slots{what: what, patience: patience, all: make(chan struct{}, count), shares: make(map[string]chan struct{})}
	share := count
	if len(keys) > 1 {
		share = count / 2
	}
	for name := range keys {
		s.shares[name] = make(chan struct{}, share)
	}
	if len(keys) == 0 {
		s.shares[""] = make(chan struct{}, share)
	}
	return s
}

// enter waits a while for one of those under way to leave, if there are too many.
func (s *slots) enter(ctx context.Context, caller string) (leave func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	own := s.shares[caller]
	select {
	case own <- struct{}{}:
	case <-ctx.Done():
		return nil, s.full(cap(own))
	}
	select {
	case s.all <- struct{}{}:
		return func() { <-s.all; <-own }, nil
	case <-ctx.Done():
		<-own
		return nil, s.full(cap(s.all))
	}
}

func (s *slots) full(count int) error {
	whose := ""
	if count < cap(s.all) {
		whose = " of this key"
	}
	return unavailable("unavailable", "Not accepted",
		fmt.Sprintf("%d %s%s are under way here already. This one was not accepted; try again later.", count, s.what, whose), 2)
}
