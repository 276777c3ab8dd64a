package handlers

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"pushq/tasks"
)

const (
	// leaseDuration is asynq's (internal/rdb: LeaseDuration). Its heartbeat extends the
	// leases of the tasks that it has been given.
	leaseDuration = 30 * time.Second
	// maxFetched bounds what one call takes: it keeps Redis from others for a
	// fraction of a millisecond.
	maxFetched = 32
	// maxHeld is how long a task may wait here for asynq to ask for it. It is no
	// longer, so that its lease is still good.
	maxHeld = time.Second
	// maxRepeated is how long a call whose answer is missing is repeated as it was.
	maxRepeated = 10 * time.Second
)

// A fetcher takes the tasks of one queue for all asynq servers of this process that
// serve it: as many with one call as there are handlers free, so that each of them is
// begun at once. asynq asks for one at a time (processor.go: exec), which costs a round
// trip for each. It is safe for concurrent use.
type fetcher struct {
	client      redis.UniversalClient
	queue       string
	concurrency int // of all servers
	log         *slog.Logger

	inWork atomic.Int64 // tasks that asynq was given and whose handlers have not ended

	mutex    sync.Mutex // also while a call is under way: the others wait for what it brings
	taken    []tasks.Taken
	takenAt  time.Time
	leaseEnd time.Time // of the call whose answer is missing, or zero
}

// next returns the message of a task, or redis.Nil if there is none.
func (f *fetcher) next(ctx context.Context) (message string, err error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if len(f.taken) > 0 && time.Since(f.takenAt) > maxHeld {
		f.giveBack(ctx)
	}
	if len(f.taken) == 0 {
		if err := f.fetch(ctx); err != nil {
			return "", err
		}
		if len(f.taken) == 0 {
			return "", redis.Nil
		}
	}
	message = f.taken[0].Message
	f.taken = f.taken[1:]
	f.inWork.Add(1)
	return message, nil
}

func (f *fetcher) fetch(ctx context.Context) (err error) {
	now := time.Now()
	if f.leaseEnd.Before(now.Add(leaseDuration - maxRepeated)) {
		f.leaseEnd = now.Add(leaseDuration)
	}
	free := f.concurrency - int(f.inWork.Load())
	f.taken, err = tasks.Take(ctx, f.client, f.queue, f.leaseEnd, min(max(free, 1), maxFetched))
	if err != nil {
		return err
	}
	f.takenAt, f.leaseEnd = now, time.Time{}
	return nil
}

// giveBack puts back what has not been asked for. If Redis does not take it, it comes
// back when its lease has run out.
func (f *fetcher) giveBack(ctx context.Context) {
	if err := tasks.GiveBack(ctx, f.client, f.queue, f.taken); err != nil {
		f.log.Warn("tasks wait for the end of their lease", slog.Any("error", err))
	}
	f.taken = nil
}

// close gives back what is left. The servers must have stopped asking.
func (f *fetcher) close() {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if len(f.taken) > 0 {
		f.giveBack(context.Background())
	}
}

// counted is a handler that tells its queue's fetcher when it has ended.
func counted(handler asynq.Handler, fetchers map[string]*fetcher) asynq.Handler {
	return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		queue, _ := asynq.GetQueueName(ctx)
		if fetcher, known := fetchers[queue]; known {
			defer fetcher.inWork.Add(-1)
		}
		return handler.ProcessTask(ctx, task)
	})
}
