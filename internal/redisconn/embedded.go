package redisconn

import (
	"fmt"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// Embedded is a Redis inside this process, for `pushq dev`. Nothing in it
// survives a restart.
type Embedded struct {
	server *miniredis.Miniredis
	done   chan struct{}
	clock  sync.WaitGroup
}

// StartEmbedded starts an embedded Redis on a free loopback port.
func StartEmbedded() (*Embedded, error) {
	server := miniredis.NewMiniRedis()
	if err := server.Start(); err != nil {
		return nil, fmt.Errorf("start the embedded redis: %w", err)
	}
	embedded := &Embedded{server: server, done: make(chan struct{})}
	embedded.clock.Go(embedded.expire)
	return embedded, nil
}

// URL is for Open.
func (e *Embedded) URL() string { return "redis://" + e.Address() + "/0" }

// Address is the host and the port of the server.
func (e *Embedded) Address() string { return e.server.Addr() }

// Close stops the server.
func (e *Embedded) Close() {
	close(e.done)
	e.clock.Wait()
	e.server.Close()
}

// expire lets time pass: miniredis expires keys only when it is told to.
func (e *Embedded) expire() {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-e.done:
			return
		case <-ticker.C:
			e.server.FastForward(time.Second)
		}
	}
}
