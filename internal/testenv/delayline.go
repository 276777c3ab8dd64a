package testenv

import (
	"io"
	"sync"
	"time"
)

// delayLine passes bytes on in order, each when it is due. Any number of them
// are under way at once, so a delay costs time but no throughput.
type delayLine struct {
	mutex    sync.Mutex
	waiting  []delayedBytes
	finished bool
	changed  chan struct{} // holds a token after a change
}

type delayedBytes struct {
	bytes []byte
	due   time.Time
}

func newDelayLine() *delayLine {
	return &delayLine{changed: make(chan struct{}, 1)}
}

// put appends bytes, which the line then owns. It never blocks.
func (l *delayLine) put(bytes []byte, due time.Time) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.finished {
		return
	}
	l.waiting = append(l.waiting, delayedBytes{bytes, due})
	l.notify()
}

// finish ends the line: what is under way arrives, and nothing after it.
func (l *delayLine) finish(due time.Time) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.finished {
		return
	}
	l.waiting = append(l.waiting, delayedBytes{nil, due})
	l.finished = true
	l.notify()
}

func (l *delayLine) notify() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// take removes and returns everything that is due, and the time at which the
// next bytes are, zero if there are none. last means that nothing follows.
func (l *delayLine) take(now time.Time) (due []byte, next time.Time, last bool) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	taken := 0
	for taken < len(l.waiting) && !l.waiting[taken].due.After(now) {
		due = append(due, l.waiting[taken].bytes...)
		taken++
	}
	l.waiting = l.waiting[taken:]
	if len(l.waiting) == 0 {
		l.waiting = nil
		return due, time.Time{}, l.finished
	}
	return due, l.waiting[0].due, false
}

// deliver writes everything to the destination when it is due, until the line
// is finished and empty (true) or abandoned is closed or writing fails (false).
// Before each write it waits for the passage, which is asked for each time.
func (l *delayLine) deliver(destination io.Writer, passage func() <-chan struct{}, abandoned <-chan struct{}) bool {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-passage():
		case <-abandoned:
			return false
		}
		due, next, last := l.take(time.Now())
		if len(due) > 0 {
			if _, err := destination.Write(due); err != nil {
				return false
			}
		}
		if last {
			return true
		}
		var nextIsDue <-chan time.Time
		if !next.IsZero() {
			timer.Reset(time.Until(next))
			nextIsDue = timer.C
		}
		select {
		case <-nextIsDue:
		case <-l.changed:
		case <-abandoned:
			return false
		}
	}
}
