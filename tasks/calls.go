package tasks

import "sync"

// calls are those under way to something that can be closed. A caller may give
// one up: it goes on, and close waits for it, because the clients that it uses
// are closed next.
type calls struct {
	mutex   sync.Mutex // guards closed, and running.Add against running.Wait
	closed  bool
	running sync.WaitGroup
}

// begin counts a call, which ends with end. It refuses with false after close.
func (c *calls) begin() bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.closed {
		return false
	}
	c.running.Add(1)
	return true
}

func (c *calls) end() { c.running.Done() }

// close refuses new calls and returns when all have ended.
func (c *calls) close() {
	c.mutex.Lock()
	c.closed = true
	c.mutex.Unlock()
	c.running.Wait()
}
