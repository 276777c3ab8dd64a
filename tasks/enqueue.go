package tasks

import (
	"context"
	_ "embed" // the script
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"pushq/scheduler"
)

var (
	//go:embed scripts/enqueue.lua
	enqueueSource string

	enqueueScript = redis.NewScript(enqueueSource)
)

// What one call of the script takes at most; the last push may pass the second
// bound. It keeps Redis from others for about a millisecond.
const (
	groupPushes = 128
	groupBytes  = 128 << 10

	// maxStoring is how many calls are under way to one place: a second one, if
	// a whole group waits, so that Redis need not wait for it.
	maxStoring = 2
)

// An enqueuer puts pushes into their asynq queues, as asynq's own client would,
// but many with one call: those that come while a call is under way go together
// with the next one. It is safe for concurrent use.
type enqueuer struct {
	channel   Channel
	retention Retention
	redis     redis.UniversalClient
	announcer *announcer
	// registered is set when asynq knows the queues.
	registered atomic.Bool

	mutex  sync.Mutex
	closed bool
	// waiting has the pushes of each place that no goroutine has taken yet. It
	// is no longer than there are callers who wait.
	waiting map[place][]*enqueuing
	// storing counts the goroutines of each place.
	storing map[place]int
	running sync.WaitGroup
}

// A place is where the ids of tasks of one queue and state are.
type place struct {
	queue string
	state asynq.TaskState // pending or scheduled
}

// An enqueuing is one push on its way.
type enqueuing struct {
	to       place
	id, hash string // id and key of the task
	message  []byte
	time     int64 // as the script takes it

	taken bool // there was such a task already
	err   error
	done  chan struct{} // closed when the fields above it are set
}

func newEnqueuer(client redis.UniversalClient, channel Channel, retention Retention) *enqueuer {
	return &enqueuer{
		channel: channel, retention: retention, redis: client, announcer: newAnnouncer(client, channel),
		waiting: make(map[place][]*enqueuing), storing: make(map[place]int),
	}
}

// close fails the pushes that wait, and all later ones, with errStopping. It
// returns when those under way have been stored and announced, or have failed.
func (e *enqueuer) close() {
	e.mutex.Lock()
	e.closed = true
	for _, waiting := range e.waiting {
		for _, one := range waiting {
			one.err = errStopping
			close(one.done)
		}
	}
	clear(e.waiting)
	e.mutex.Unlock()
	e.running.Wait()
	e.announcer.close()
}

// enqueue returns at once; the push is stored, or has failed, when it is done.
func (e *enqueuer) enqueue(push Push) (*enqueuing, error) {
	message, err := newMessage(e.channel, push, e.retention)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	to, at := place{e.channel.queue(push), asynq.TaskStatePending}, now.UnixNano()
	if push.DueAt > push.CreatedAt {
		if due := scheduler.CeilSecond(push.DueAt.Time()); due.After(now) {
			to.state, at = asynq.TaskStateScheduled, due.Unix()
		}
	}
	one := &enqueuing{to: to, id: push.ID, hash: asynqTaskKey(to.queue, push.ID), message: message, time: at, done: make(chan struct{})}
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if e.closed {
		return nil, errStopping
	}
	e.waiting[to] = append(e.waiting[to], one)
	if busy := e.storing[to]; busy == 0 || busy < maxStoring && len(e.waiting[to]) >= groupPushes {
		e.storing[to]++
		e.running.Go(func() { e.storeAll(to) })
	}
	return one, nil
}

// withdraw takes back a push that still waits: Redis is never asked for it. It
// reports false if that is too late.
func (e *enqueuer) withdraw(one *enqueuing) bool {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	waiting := e.waiting[one.to]
	at := slices.Index(waiting, one)
	if at < 0 {
		return false
	}
	e.keep(one.to, slices.Delete(waiting, at, at+1))
	return true
}

// keep sets what waits for a place. Nothing keeps no memory.
func (e *enqueuer) keep(to place, waiting []*enqueuing) {
	if len(waiting) == 0 {
		delete(e.waiting, to)
		return
	}
	e.waiting[to] = waiting
}

// storeAll stores what waits for a place, until nothing does.
func (e *enqueuer) storeAll(to place) {
	for group := e.next(to); len(group) > 0; group = e.next(to) {
		err := e.store(to, group)
		for _, one := range group {
			one.err = err
			close(one.done)
		}
	}
}

// next takes the group that is stored next. If there is none, the goroutine ends.
func (e *enqueuer) next(to place) []*enqueuing {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	waiting := e.waiting[to]
	count, bytes := 0, 0
	for count < min(len(waiting), groupPushes) && bytes < groupBytes {
		bytes += len(waiting[count].message)
		count++
	}
	if count == 0 {
		e.storing[to]--
	}
	group := slices.Clone(waiting[:count])
	e.keep(to, slices.Delete(waiting, 0, count))
	return group
}

func (e *enqueuer) store(to place, group []*enqueuing) (err error) {
	defer recovered(&err)
	if err := e.register(context.Background()); err != nil {
		return notSent(err)
	}
	keys := make([]string, 0, 1+len(group))
	keys = append(keys, asynqStateKey(to.queue, to.state))
	arguments := make([]any, 0, 1+3*len(group))
	arguments = append(arguments, to.state.String())
	for _, one := range group {
		keys = append(keys, one.hash)
		arguments = append(arguments, one.id, one.message, one.time)
	}
	taken, err := e.call(context.Background(), keys, arguments)
	if err != nil {
		return storeError(err)
	}
	for _, number := range taken {
		group[number-1].taken = true
	}
	if to.state == asynq.TaskStatePending {
		e.announcer.announce(to.queue)
	}
	return nil
}

// call runs the script on a connection of its own: an auto-pipeline would let it
// wait for the call before.
func (e *enqueuer) call(ctx context.Context, keys []string, arguments []any) (taken []int64, err error) {
	var answer *redis.Cmd
	_, err = e.redis.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		answer = enqueueScript.EvalSha(ctx, pipe, keys, arguments...)
		return nil
	})
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		_, _ = e.redis.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			answer = enqueueScript.Eval(ctx, pipe, keys, arguments...)
			return nil
		})
	}
	return answer.Int64Slice()
}

// register does once what asynq's client does before the first task of a queue.
func (e *enqueuer) register(ctx context.Context) error {
	if e.registered.Load() {
		return nil
	}
	err := RegisterQueues(ctx, e.redis, e.channel)
	e.registered.Store(err == nil)
	return err
}
