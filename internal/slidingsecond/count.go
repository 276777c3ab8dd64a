// Package slidingsecond counts events in any second, not only in those that
// begin with a full second: the strictest reading of "at most so many a second".
package slidingsecond

import "time"

// Count counts events in the second that ends now. Two events exactly a second
// apart do not share one. The zero value is ready. It is not safe for
// concurrent use.
type Count struct {
	// events are those of the latest second, oldest first.
	events  []time.Duration
	largest int
}

// Add notes an event, not earlier than the one before, and returns the number
// of events in the second that ends with it, this one included.
func (c *Count) Add(at time.Duration) int {
	expired := 0
	for expired < len(c.events) && at-c.events[expired] >= time.Second {
		expired++
	}
	c.events = append(c.events[expired:], at)
	c.largest = max(c.largest, len(c.events))
	return len(c.events)
}

// Largest returns the largest number of events in any second so far.
func (c *Count) Largest() int { return c.largest }
