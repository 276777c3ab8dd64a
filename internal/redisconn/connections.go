package redisconn

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"pushq/internal/secreturl"
)

const (
	// renewInterval is the least time between two renewals. A server that goes on
	// refusing would otherwise be given a new connection for every command.
	renewInterval = time.Second
	// recordsHold is how long the pipeline of the records keeps one connection before
	// it looks for another.
	recordsHold = time.Second
)

// connections are all that one process has to a Redis, by any of its clients.
//
// An address may lead to another server from one moment to the next: a proxy or
// a virtual address does after a failover, and leaves open connections where they
// are. The former master answers on those as a replica, which refuses writes and
// is read without anybody noticing that it lags behind. So a refusal of writes
// on one connection ends the use of all of them, and no connection is used
// for longer than the greatest age.
type connections struct {
	greatestAge time.Duration // 0 for none
	log         *slog.Logger
	mask        secreturl.Mask // of what a server says, who may quote its password

	mutex   sync.Mutex
	open    map[*connection]struct{}
	renewed time.Time
	due     bool // a renewal is to come when renewInterval is over
}

func newConnections(greatestAge time.Duration, log *slog.Logger, mask secreturl.Mask) *connections {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &connections{greatestAge: greatestAge, log: log, mask: mask, open: map[*connection]struct{}{}}
}

type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// dialer adds what dial opens. A command or its answer is under way on a
// connection for no longer than timeout.
func (c *connections) dialer(dial dialer, timeout time.Duration) dialer {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		opened, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return c.add(opened, timeout), nil
	}
}

func (c *connections) add(opened net.Conn, timeout time.Duration) *connection {
	added := &connection{Conn: opened, all: c, lastUse: timeout + recordsHold}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.open[added] = struct{}{}
	if c.greatestAge > 0 {
		// Not all at the same moment, although they may have been opened at one.
		age := c.greatestAge - rand.N(c.greatestAge/10+1)
		added.timer = time.AfterFunc(age, func() {
			c.mutex.Lock()
			defer c.mutex.Unlock()
			c.retire(added)
		})
	}
	return added
}

func (c *connections) remove(closed *connection) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	delete(c.open, closed)
	if closed.timer != nil {
		closed.timer.Stop()
	}
}

// refused is told of a refusal of writes. reason is for the log.
func (c *connections) refused(reason string) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.due {
		return
	}
	if wait := time.Until(c.renewed.Add(renewInterval)); wait > 0 {
		c.due = true
		time.AfterFunc(wait, func() {
			c.mutex.Lock()
			defer c.mutex.Unlock()
			c.due = false
			c.renew(reason)
		})
		return
	}
	c.renew(reason)
}

// renew is called with the mutex held.
func (c *connections) renew(reason string) {
	c.renewed = time.Now()
	if len(c.open) == 0 {
		return
	}
	c.log.Warn("redis refuses: all connections to it are opened anew, since its address may lead to another server by now",
		slog.String("answer", c.mask.Text(WithoutArguments(reason))), slog.Int("connections", len(c.open)))
	for opened := range c.open {
		c.retire(opened)
	}
}

// retire lets no new command use the connection, and closes it when the last one
// must have been answered. It is called with the mutex held.
func (c *connections) retire(opened *connection) {
	if opened.retired.Swap(true) {
		return
	}
	if opened.timer != nil {
		opened.timer.Stop()
	}
	// What is still there then is idle, or waits for messages and has to ask for
	// them elsewhere.
	opened.timer = time.AfterFunc(opened.lastUse, func() { _ = opened.Close() })
}
