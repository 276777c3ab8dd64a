package redisconn

import (
	"errors"
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

var errRetired = errors.New("this connection is not to be used any more")

// A connection is one to Redis that reports refusals of writes, and that go-redis
// takes no more for new commands once it is retired.
type connection struct {
	net.Conn
	all     *connections
	lastUse time.Duration // after it is retired
	replies replies
	retired atomic.Bool
	timer   *time.Timer // guarded by all.mutex; may be nil
}

// Read also looks at what has been read. As with every net.Conn of go-redis, one
// goroutine reads at a time.
func (c *connection) Read(into []byte) (int, error) {
	n, err := c.Conn.Read(into)
	for text := range c.replies.errors(into[:n]) {
		if !c.retired.Load() && refusesWritesOrIsUnknown(text) {
			c.all.refused(text)
		}
	}
	return n, err
}

// Close may be called several times.
func (c *connection) Close() error {
	c.all.remove(c)
	return c.Conn.Close()
}

// SyscallConn is what go-redis asks for before it uses a connection that has been
// idle: with an error it closes it and takes another one.
func (c *connection) SyscallConn() (syscall.RawConn, error) {
	if c.retired.Load() {
		return nil, errRetired
	}
	if conn, ok := c.Conn.(syscall.Conn); ok {
		return conn.SyscallConn()
	}
	return opaque{}, nil
}

// opaque stands for what is below an encrypted connection: bytes there say nothing
// of the replies, so that there is nothing to look at.
type opaque struct{}

func (opaque) Control(func(uintptr)) error    { return nil }
func (opaque) Read(func(uintptr) bool) error  { return nil }
func (opaque) Write(func(uintptr) bool) error { return nil }
