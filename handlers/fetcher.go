package handlers

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"pushq/tasks"
)

const (
	// maxFetched bounds what one call takes: it keeps Redis from others for a
	// fraction of a millisecond.
	maxFetched = 32
	// maxHeld is how long a task may wait here for asynq to ask for it. Its lease
	// is good for half a minute, but another process may have room for it.
	maxHeld = time.Second
	// beginsWithin is how long after asynq was given a task its handler begins, if
	// asynq runs it at all: not if its context has ended (processor.go: exec).
	beginsWithin = 10 * time.Second
)

// A fetcher takes the tasks of one queue for all asynq servers of this process that
// serve it: as many with one call as there are handlers free, so that each of them is
// begun at once. asynq asks for one at a time (processor.go: exec), which costs a round
// trip for each. It is safe for concurrent use.
type fetcher struct {
	concurrency int // of all servers
	log         *slog.Logger

	fetching sync.Mutex // for what follows, also during a call: the others wait for what it brings
	taker    *tasks.Taker
	taken    []tasks.Taken
	takenAt  time.Time

	counting sync.Mutex           // for what follows
	given    map[string]time.Time // to asynq, by id; their handlers have not begun
	begun    int                  // handlers that have not ended
}

func newFetcher(client redis.UniversalClient, queue string, concurrency int, log *slog.Logger) *fetcher {
	return &fetcher{concurrency: concurrency, log: log, taker: tasks.NewTaker(client, queue), given: make(map[string]time.Time)}
}

// next returns the message of a task, or redis.Nil if there is none.
func (f *fetcher) next(ctx context.Context) (message string, err error) {
	f.fetching.Lock()
	defer f.fetching.Unlock()
	if len(f.taken) > 0 && time.Since(f.takenAt) > maxHeld {
		f.giveBack(ctx)
	}
	if len(f.taken) == 0 {
		f.taken, err = f.taker.Take(ctx, min(max(f.free(), 1), maxFetched))
		if err != nil {
			return "", err
		}
		if len(f.taken) == 0 {
			return "", redis.Nil
		}
		f.takenAt = time.Now()
	}
	one := f.taken[0]
	f.taken = f.taken[1:]
	f.give(one.ID)
	return one.Message, nil
}

// giveBack puts back what has not been asked for. If Redis does not take it, it comes
// back when its lease has run out.
func (f *fetcher) giveBack(ctx context.Context) {
	if err := f.taker.GiveBack(ctx, f.taken); err != nil {
		f.log.Warn("tasks wait for the end of their lease", slog.Any("error", err))
	}
	f.taken = nil
}

// close gives back what is left. The servers must have stopped asking.
func (f *fetcher) close() {
	f.fetching.Lock()
	defer f.fetching.Unlock()
	ctx := context.Background()
	if f.taker.Unanswered() {
		f.taken, _ = f.taker.Take(ctx, 1) // what the last call may have taken
	}
	if len(f.taken) > 0 {
		f.giveBack(ctx)
	}
}

func (f *fetcher) give(id string) {
	f.counting.Lock()
	defer f.counting.Unlock()
	f.given[id] = time.Now()
}

func (f *fetcher) begin(id string) {
	f.counting.Lock()
	defer f.counting.Unlock()
	delete(f.given, id)
	f.begun++
}

func (f *fetcher) end() {
	f.counting.Lock()
	defer f.counting.Unlock()
	f.begun--
}

// free is how many handlers have nothing to do.
func (f *fetcher) free() int {
	f.counting.Lock()
	defer f.counting.Unlock()
	free := f.concurrency - f.begun - len(f.given)
	if free > 0 {
		return free
	}
	for id, at := range f.given {
		if time.Since(at) > beginsWithin {
			delete(f.given, id)
		}
	}
	return f.concurrency - f.begun - len(f.given)
}

// counted is a handler that tells its queue's fetcher when it begins and ends.
func counted(handler asynq.Handler, fetchers map[string]*fetcher) asynq.Handler {
	return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		queue, _ := asynq.GetQueueName(ctx)
		if fetcher, known := fetchers[queue]; known {
			id, _ := asynq.GetTaskID(ctx)
			fetcher.begin(id)
			defer fetcher.end()
		}
		return handler.ProcessTask(ctx, task)
	})
}
