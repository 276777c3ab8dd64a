package exchange

import (
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// usualTurn makes connections 24 s old at most.
const usualTurn = 12 * time.Second

// transports bound the age of connections, which net/http does not: under steady load a
// connection is used for ever, although the name that led to it leads elsewhere by now.
//
// There are two at a time. In the course of a turn fewer and fewer requests go to the
// former one, and then it is closed, the other one takes its place, and a new one takes
// the place of that. So a request is sent on no connection that is older than two turns,
// and at any time only a few of many requests wait for a connection to be opened: if
// all did at once, those behind them would catch up, and more than the provider's limit
// would arrive within a second. It is safe for concurrent use.
type transports struct {
	open func() *http.Transport
	turn time.Duration

	mutex        sync.Mutex
	former, next *http.Transport
	since        time.Time // the beginning of this turn
}

func newTransports(open func() *http.Transport) *transports {
	return &transports{open: open, turn: usualTurn, former: open(), next: open(), since: time.Now()}
}

// choose returns the transport of the next request.
func (t *transports) choose() *http.Transport {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	switch passed := time.Since(t.since); {
	case passed >= 2*t.turn: // nobody has asked for a while
		t.closeIdle()
		t.former, t.next, t.since = t.open(), t.open(), time.Now()
	case passed >= t.turn:
		t.former.CloseIdleConnections() // those in use are closed when they are idle
		t.former, t.next, t.since = t.next, t.open(), t.since.Add(t.turn)
	}
	if rand.N(t.turn) < time.Since(t.since) {
		return t.next
	}
	return t.former
}

func (t *transports) close() {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.closeIdle()
}

func (t *transports) closeIdle() {
	t.former.CloseIdleConnections()
	t.next.CloseIdleConnections()
}
