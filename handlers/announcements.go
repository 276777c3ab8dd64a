package handlers

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"

	"pushq/tasks"
)

// announcements pass on to the pollers of this process which queues have got
// pushes. They are safe for concurrent use.
type announcements struct {
	subscription *redis.PubSub
	listening    sync.WaitGroup
	closed       chan struct{}
	closeOnce    sync.Once

	mutex sync.Mutex
	wait  map[string]chan struct{}
}

// listenToAnnouncements hears what tasks.Intake announces in any process.
func listenToAnnouncements(client redis.UniversalClient, channel tasks.Channel) *announcements {
	a := &announcements{
		subscription: client.Subscribe(context.Background(), channel.AnnouncementsChannel()),
		closed:       make(chan struct{}),
		wait:         make(map[string]chan struct{}),
	}
	for _, queue := range channel.Queues() {
		a.wait[queue] = make(chan struct{})
	}
	a.listening.Go(func() {
		for message := range a.subscription.Channel() {
			a.announce(message.Payload)
		}
	})
	return a
}

// next is closed by the next announcement for the queue.
func (a *announcements) next(queue string) <-chan struct{} {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return a.wait[queue]
}

func (a *announcements) announce(queue string) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if announced, known := a.wait[queue]; known {
		close(announced)
		a.wait[queue] = make(chan struct{})
	}
}

// release lets all pollers go, for ever. It may be repeated.
func (a *announcements) release() { a.closeOnce.Do(func() { close(a.closed) }) }

// stop releases the pollers and stops listening.
func (a *announcements) stop() {
	a.release()
	_ = a.subscription.Close()
	a.listening.Wait()
}
