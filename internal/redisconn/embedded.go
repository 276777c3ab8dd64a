package redisconn

import (
	"fmt"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
)

// embeddedMode is what the embedded server says of itself as redis_mode in INFO, so that
// nobody judges it as a Redis that is to keep pushes.
const embeddedMode = "embedded"

// Embedded is a Redis inside this process, for `pushq dev`. Nothing in it
// survives a restart.
type Embedded struct {
	server *miniredis.Miniredis
	done   chan struct{}
	clock  sync.WaitGroup
}

// StartEmbedded starts an embedded Redis on a free loopback port.
func StartEmbedded() (*Embedded, error) {
	redis := miniredis.NewMiniRedis()
	if err := redis.Start(); err != nil {
		return nil, fmt.Errorf("start the embedded redis: %w", err)
	}
	redis.Server().SetPreHook(answerInfo)
	embedded := &Embedded{server: redis, done: make(chan struct{})}
	embedded.clock.Go(embedded.expire)
	return embedded, nil
}

// answerInfo answers INFO of any section: miniredis would refuse most of them.
func answerInfo(client *server.Peer, command string, _ ...string) bool {
	if command != "INFO" {
		return false
	}
	client.WriteBulk("# Server\r\nredis_mode:" + embeddedMode + "\r\n")
	return true
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
