package tasks

import (
	"context"
	_ "embed" // the scripts
	"fmt"
	"time"

	"github.com/hibiken/asynq"
	"github.com/oklog/ulid/v2"
	"github.com/redis/go-redis/v9"

	"pushq/internal/keytype"
)

var (
	//go:embed scripts/take.lua
	takeSource string
	//go:embed scripts/give_back.lua
	giveBackSource string

	takeScript     = redis.NewScript(keytype.Source + takeSource)
	giveBackScript = redis.NewScript(giveBackSource)
)

const (
	// asynqLeaseDuration is how long asynq lends a task (internal/rdb: LeaseDuration).
	// Its heartbeat extends the leases of those that its servers work at.
	asynqLeaseDuration = 30 * time.Second

	// repeatable is how long a call whose answer is missing is repeated. What it took
	// comes back later all the same, when its lease has run out.
	repeatable = 10 * time.Second
)

// A Taker takes tasks of one asynq queue. It is not safe for concurrent use.
type Taker struct {
	redis redis.UniversalClient
	queue string
	key   string // of what it has taken last

	call       string    // name of the last call
	leaseEnd   time.Time // of what it takes
	unanswered bool
}

// NewTaker returns a taker for a queue.
func NewTaker(client redis.UniversalClient, queue string) *Taker {
	return &Taker{redis: client, queue: queue, key: queueKey(queue, "taken:"+ulid.Make().String())}
}

// A Taken is a task that a Taker has taken from its queue.
type Taken struct {
	ID      string
	Message string // as asynq keeps it

	leaseEnd int64 // in seconds
}

// Take takes the oldest tasks, as many as there are up to count, unless the queue is
// paused. After an error, the next call within ten seconds brings what the failed one
// may have taken.
func (t *Taker) Take(ctx context.Context, count int) ([]Taken, error) {
	now := time.Now()
	if !t.unanswered || t.leaseEnd.Before(now.Add(asynqLeaseDuration-repeatable)) {
		t.call, t.leaseEnd = ulid.Make().String(), now.Add(asynqLeaseDuration)
	}
	t.unanswered = true
	reply, err := takeScript.Run(ctx, t.redis,
		[]string{
			asynqStateKey(t.queue, asynq.TaskStatePending), asynqPausedKey(t.queue),
			asynqStateKey(t.queue, asynq.TaskStateActive), asynqLeaseKey(t.queue), t.key,
		},
		t.leaseEnd.Unix(), asynqTaskKey(t.queue, ""), count, t.call, 2*repeatable.Milliseconds(),
	).StringSlice()
	if err != nil {
		return nil, fmt.Errorf("take tasks of queue %s: %w", t.queue, err)
	}
	t.unanswered = false
	taken := make([]Taken, 0, len(reply)/2)
	for place := 0; place+1 < len(reply); place += 2 {
		taken = append(taken, Taken{ID: reply[place], Message: reply[place+1], leaseEnd: t.leaseEnd.Unix()})
	}
	return taken, nil
}

// Unanswered reports whether the last call failed, so that it may have taken tasks of
// which nobody knows.
func (t *Taker) Unanswered() bool { return t.unanswered }

// GiveBack puts tasks, in the order in which they were taken, where Take finds them
// first. Those that others have got meanwhile stay where they are.
func (t *Taker) GiveBack(ctx context.Context, taken []Taken) error {
	arguments := []any{asynqTaskKey(t.queue, "")}
	for place := range taken {
		one := taken[len(taken)-1-place]
		arguments = append(arguments, one.ID, one.leaseEnd)
	}
	err := giveBackScript.Run(ctx, t.redis,
		[]string{asynqStateKey(t.queue, asynq.TaskStateActive), asynqLeaseKey(t.queue), asynqStateKey(t.queue, asynq.TaskStatePending)},
		arguments...,
	).Err()
	if err != nil {
		return fmt.Errorf("give %d tasks back to queue %s: %w", len(taken), t.queue, err)
	}
	return nil
}
