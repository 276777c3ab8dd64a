package tasks

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// announceInterval is the least time between two announcements of one queue by
// one process.
const announceInterval = 10 * time.Millisecond

// AnnouncementsChannel is where processes that have put pushes into a queue
// publish its name, for idle workers to look there at once.
func (c Channel) AnnouncementsChannel() string { return c.key("announcements") }

// An announcer tells the workers of all processes which queues have got pushes.
// Nothing depends on it but how soon an idle worker looks. It is safe for
// concurrent use.
type announcer struct {
	channel Channel
	redis   redis.UniversalClient

	mutex      sync.Mutex
	announcing map[string]bool // queues with a goroutine
	again      map[string]bool // those that have got pushes since it announced
	closed     bool
	running    sync.WaitGroup
}

func newAnnouncer(client redis.UniversalClient, channel Channel) *announcer {
	return &announcer{channel: channel, redis: client, announcing: make(map[string]bool), again: make(map[string]bool)}
}

// announce returns at once. The first push after a pause is announced
// immediately, those of the next announceInterval together after it.
func (a *announcer) announce(queue string) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	switch {
	case a.closed:
	case a.announcing[queue]:
		a.again[queue] = true
	default:
		a.announcing[queue] = true
		a.running.Go(func() { a.publish(queue) })
	}
}

func (a *announcer) publish(queue string) {
	for again := true; again; {
		// An error is the workers' delay only: they also look by themselves.
		_ = a.redis.Publish(context.Background(), a.channel.AnnouncementsChannel(), queue).Err()
		time.Sleep(announceInterval)
		a.mutex.Lock()
		again = a.again[queue]
		a.again[queue] = false
		a.announcing[queue] = again
		a.mutex.Unlock()
	}
}

// close returns when the last announcement has been made.
func (a *announcer) close() {
	a.mutex.Lock()
	a.closed = true
	a.mutex.Unlock()
	a.running.Wait()
}
