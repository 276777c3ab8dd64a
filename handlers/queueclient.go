package handlers

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"pushq/internal/redisconn"
)

const (
	// firstPark is how long a poller that found its queue empty waits before it
	// looks again, unless a push is announced: as long as one that knew nothing
	// of announcements would.
	firstPark = 10 * time.Millisecond
	// longPark is the same for a queue that has been found empty twice. It bounds
	// the delay of a push whose announcement was lost.
	longPark = 500 * time.Millisecond
)

// queueClient is the Redis client of one asynq server of one queue. Instead of
// asking an empty queue a hundred times a second, the server is held back in its
// dequeue (asynq rdb.go: Dequeue, called by one goroutine alone, processor.go:
// exec) until a push is announced. What it takes comes from the queue's fetcher, and its
// completions go through the pipeline of the records.
//
// It knows asynq's scripts by their keys. If a later asynq has others, nothing is
// held back, and the server polls every taskCheckInterval.
type queueClient struct {
	redis.UniversalClient
	fetcher *fetcher
	// pipeline is for completions. It obeys no contexts.
	pipeline      redis.UniversalClient
	completed     func(id string) bool // or nil
	onFault       func()               // of the fetcher and the pipeline
	announcements *announcements
	queue         string
	foundEmpty    int // times in a row
}

// EvalSha runs a script of asynq.
func (p *queueClient) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	return p.script(ctx, keys, args, func(client redis.UniversalClient) *redis.Cmd {
		return client.EvalSha(ctx, sha, keys, args...)
	})
}

// Eval does when Redis does not know the script (go-redis: Script.Run).
func (p *queueClient) Eval(ctx context.Context, script string, keys []string, args ...any) *redis.Cmd {
	return p.script(ctx, keys, args, func(client redis.UniversalClient) *redis.Cmd {
		return client.Eval(ctx, script, keys, args...)
	})
}

func (p *queueClient) script(ctx context.Context, keys []string, args []any, call func(redis.UniversalClient) *redis.Cmd) *redis.Cmd {
	switch {
	case p.dequeues(keys):
		announced := p.announcements.next(p.queue) // before looking: none is missed
		cmd := redis.NewCmd(ctx)
		message, err := p.fetcher.next(ctx)
		switch {
		case errors.Is(err, redis.Nil):
			cmd.SetErr(redis.Nil)
			p.park(ctx, keys, announced)
		case err != nil:
			cmd.SetErr(err)
			p.onFault()
			p.pause()
		default:
			cmd.SetVal(message)
			p.foundEmpty = 0
		}
		return cmd
	case p.forwards(keys):
		cmd := call(p.UniversalClient)
		if moved, err := cmd.Int(); err == nil && moved > 0 {
			p.announcements.announce(p.queue)
		}
		return cmd
	case p.completes(keys):
		cmd := redis.NewCmd(ctx)
		switch id, _ := args[0].(string); {
		case p.completed != nil && p.completed(id):
			cmd.SetVal("OK")
		case ctx.Err() != nil:
			// asynq repeats what failed with a context that has ended (processor.go:
			// markAsComplete), when others may have got the task.
			cmd.SetErr(ctx.Err())
		default:
			cmd = call(p.pipeline)
			if redisconn.IsFault(cmd.Err()) {
				p.onFault()
			}
		}
		return cmd
	default:
		return call(p.UniversalClient)
	}
}

// pauseAfterFault slows the server down while Redis answers with errors: asynq repeats
// a failed dequeue at once (processor.go: exec), thousands of times a second while
// Redis is out of memory.
const pauseAfterFault = 100 * time.Millisecond

func (p *queueClient) pause() {
	timer := time.NewTimer(pauseAfterFault)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.announcements.closed:
	}
}

// dequeues: KEYS are pending, paused, active, lease (asynq rdb.go: dequeueCmd).
func (p *queueClient) dequeues(keys []string) bool {
	return len(keys) == 4 && strings.HasSuffix(keys[0], ":pending") && strings.HasSuffix(keys[1], ":paused")
}

// forwards: KEYS are scheduled or retry, pending (asynq rdb.go: forwardCmd).
func (p *queueClient) forwards(keys []string) bool {
	return len(keys) == 2 && strings.HasSuffix(keys[1], ":pending")
}

// completes: the first KEYS are active, lease, and there are more than for a
// requeue (asynq rdb.go: doneCmd, markAsCompleteCmd, requeueCmd).
func (p *queueClient) completes(keys []string) bool {
	return len(keys) > 4 && strings.HasSuffix(keys[0], ":active") && strings.HasSuffix(keys[1], ":lease")
}

func (p *queueClient) park(ctx context.Context, keys []string, announced <-chan struct{}) {
	wait := firstPark
	if p.foundEmpty++; p.foundEmpty > 1 {
		if p.holdsTasks(ctx, keys[0], keys[1]) {
			return
		}
		wait = longPark
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-announced:
	case <-timer.C:
	case <-p.announcements.closed:
	}
}

// holdsTasks reports whether a queue that gave nothing has tasks all the same:
// asynq answers a list entry whose task is gone like an empty queue.
func (p *queueClient) holdsTasks(ctx context.Context, pendingKey, pausedKey string) bool {
	pipeline := p.Pipeline()
	paused, pending := pipeline.Exists(ctx, pausedKey), pipeline.LLen(ctx, pendingKey)
	_, err := pipeline.Exec(ctx)
	return err == nil && paused.Val() == 0 && pending.Val() > 0
}
