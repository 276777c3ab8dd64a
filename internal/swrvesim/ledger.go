package swrvesim

import (
	"net/url"
	"time"
)

// Request is what the ledger knows about one request to POST /push.
type Request struct {
	// Sequence numbers the arrivals of a round from 1.
	Sequence int `json:"sequence"`
	// ArrivedAt is the host's clock on entry of the handler, in UTC and microseconds.
	ArrivedAt time.Time `json:"arrivedAt"`
	// MonotonicMicros is the same instant in microseconds since the simulator was
	// made, on a clock that is never set.
	MonotonicMicros int64 `json:"monotonicMicros"`
	// InFlight counts the requests without an answer on arrival, this one included.
	InFlight int `json:"inFlight"`

	PushKey string `json:"pushKey"`
	User    string `json:"user"`
	Message string `json:"message"`
	Test    string `json:"test"`
	// Other holds all further fields, and the second and later values of the four above.
	Other url.Values `json:"other,omitempty"`
	// TraceParent is the header of that name, empty if there was none.
	TraceParent string `json:"traceParent,omitempty"`

	// Status is the HTTP status of the answer; 0 while there is none, and for ever
	// if the connection broke, on either side, before the answer.
	Status int `json:"status"`
	// Delivered says whether the push reaches the user. That is decided on arrival,
	// as a provider that has read a request goes on with it even if the caller goes
	// away: it may be true before there is an answer, and without one.
	Delivered bool `json:"delivered"`
}

func (r *Request) textBytes() int {
	total := len(r.PushKey) + len(r.User) + len(r.Message) + len(r.Test) + len(r.TraceParent)
	for name, values := range r.Other {
		total += len(name)
		for _, value := range values {
			total += len(value)
		}
	}
	return total
}

const ledgerTextLimit = 256 << 20

// ledger keeps the latest requests, bounded by number and by the size of their
// fields.
type ledger struct {
	size      int
	requests  []*Request
	textBytes int
	dropped   int
}

// add appends a request that has no fields yet.
func (l *ledger) add(request *Request) {
	l.requests = append(l.requests, request)
	l.trim()
}

// describe sets the fields of a request in the ledger.
func (l *ledger) describe(request *Request, fields fields) {
	request.PushKey = fields.pushKey
	request.User = fields.user
	request.Message = fields.message
	request.Test = fields.test
	request.Other = fields.other
	request.TraceParent = fields.traceParent
	if request.Sequence > l.dropped {
		l.textBytes += request.textBytes()
		l.trim()
	}
}

func (l *ledger) trim() {
	for len(l.requests) > l.size || l.textBytes > ledgerTextLimit {
		l.textBytes -= l.requests[0].textBytes()
		l.requests[0] = nil
		l.requests = l.requests[1:]
		l.dropped++
	}
}

// ledgerPart is how many requests are copied at a time, so that arrivals need
// not wait for the whole ledger.
const ledgerPart = 500

// copyPart copies the first requests with sequences from next to last, leaving
// out those that were dropped.
func (l *ledger) copyPart(next, last int) []Request {
	from := max(next-1-l.dropped, 0)
	to := min(last-l.dropped, from+ledgerPart)
	var part []Request
	for ; from < to; from++ {
		part = append(part, *l.requests[from])
	}
	return part
}
