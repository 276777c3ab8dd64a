package limiter

import (
	"slices"
	"sync/atomic"
)

// A waiter is settled once: by the dispatcher that answers it, or by itself
// when it leaves.
type waiter struct {
	class   Class
	settled atomic.Bool
	answer  chan answer
}

type answer struct {
	slot Slot
	err  error
}

// settle reports whether the caller is the one who settles the waiter.
func (w *waiter) settle() bool { return w.settled.CompareAndSwap(false, true) }

// give answers the waiter unless it has left.
func (w *waiter) give(a answer) bool {
	if !w.settle() {
		return false
	}
	w.answer <- a
	return true
}

// line holds the waiters of one class. Those that have left are dropped when
// they come to the front, or when they are more than those that wait.
type line []*waiter

// push adds a waiter; living is at least the number of those still waiting.
func (q *line) push(w *waiter, living int) {
	const few = 64
	if len(*q) > 2*living+few {
		*q = slices.DeleteFunc(*q, func(w *waiter) bool { return w.settled.Load() })
	}
	*q = append(*q, w)
}

func (q *line) pop() *waiter {
	for len(*q) > 0 {
		first := (*q)[0]
		(*q)[0] = nil
		*q = (*q)[1:]
		if !first.settled.Load() {
			return first
		}
	}
	return nil
}
