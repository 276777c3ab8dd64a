package tasks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"
)

// ErrNotFound means that there is no such push.
var ErrNotFound = errors.New("no such push")

// A Report is what is known of a push: asynq's state and the record in one.
type Report struct {
	Push  Push
	State State
	// NextAttemptAt is when the push will be tried next, if that is known:
	// while it is SCHEDULED, in RETRY, or PENDING after a deferral.
	NextAttemptAt time.Time
	Attempts      []Attempt

	ended bool // the record has an end
}

// Reader answers what became of a push. It is safe for concurrent use.
type Reader struct {
	channel   Channel
	redis     redis.UniversalClient
	records   *Records
	inspector *asynq.Inspector
}

// NewReader reads the pushes of channel from the Redis behind client.
func NewReader(client redis.UniversalClient, channel Channel, records *Records) *Reader {
	return &Reader{channel: channel, redis: client, records: records, inspector: asynq.NewInspectorFromRedisClient(client)}
}

// Get reports on one push. ErrNotFound if there is none, whatever the form of
// the id; ErrUnreadable if Redis could not tell; an *UnusableKeyError if what is stored is
// not pushq's.
func (r *Reader) Get(ctx context.Context, id string) (Report, error) {
	if !ValidID(id) {
		return Report{}, ErrNotFound
	}
	// asynq's Inspector knows no contexts: a caller that gives up leaves the
	// lookups to the client's own timeouts.
	type answer struct {
		report Report
		err    error
	}
	done := make(chan answer, 1)
	go func() {
		report, err := r.look(ctx, id)
		done <- answer{report, err}
	}()
	select {
	case got := <-done:
		return got.report, got.err
	case <-ctx.Done():
		return Report{}, fmt.Errorf("look push %s up: %w: %w", id, ErrUnreadable, context.Cause(ctx))
	}
}

func (r *Reader) look(ctx context.Context, id string) (Report, error) {
	task, record, err := r.find(ctx, id)
	if err != nil {
		return Report{}, err
	}
	return report(id, task, record)
}

// find reads the task first: a worker writes the record before it lets go of
// the task, so the record is never behind the state that the task shows.
// Either is nil if there is none.
func (r *Reader) find(ctx context.Context, id string) (*asynq.TaskInfo, *Record, error) {
	queues := r.channel.Queues()
	found := make([]*asynq.TaskInfo, len(queues))
	var lookups errgroup.Group
	for place, queue := range queues {
		lookups.Go(func() (err error) {
			found[place], err = r.task(queue, id)
			return err
		})
	}
	if err := lookups.Wait(); err != nil {
		return nil, nil, err
	}
	record, err := r.records.Get(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	for _, task := range found {
		if task != nil {
			return task, record, nil
		}
	}
	return nil, record, nil
}

// undecodableTask are the texts in which asynq v0.26.0 says that what it has read is no task
// of its own (internal/rdb: GetTaskInfo).
var undecodableTask = []string{"could not decode task message", "unexpected value returned from Lua script"}

// task returns asynq's view of a push in one queue, or nil. A queue that asynq
// does not know is a fault (workers and API add theirs at start), not a push
// that does not exist.
func (r *Reader) task(queue, id string) (*asynq.TaskInfo, error) {
	task, err := r.inspector.GetTaskInfo(queue, id)
	if errors.Is(err, asynq.ErrTaskNotFound) {
		return nil, nil
	}
	if isWrongType(err) || firstIn(err, undecodableTask) != "" {
		return nil, &UnusableKeyError{Key: asynqTaskKey(queue, id), Cause: err}
	}
	if err != nil {
		return nil, fmt.Errorf("read task %s of queue %s: %w: %w", id, queue, ErrUnreadable, err)
	}
	return task, nil
}

// LastError returns the text that asynq keeps of the last run of a push that
// was not a success, or "".
func (r *Reader) LastError(queue, id string) (string, error) {
	task, err := r.task(queue, id)
	if err != nil || task == nil {
		return "", err
	}
	return task.LastErr, nil
}

func report(id string, task *asynq.TaskInfo, record *Record) (Report, error) {
	state, known := StateOf(task, record)
	if !known {
		return Report{}, ErrNotFound
	}
	result := Report{State: state}
	if record != nil {
		result.Push, result.Attempts, result.ended = record.Push, record.Attempts, record.End != ""
	} else {
		// What cannot be decoded is shown with its id and state alone; the
		// handler ends it FAILED.
		result.Push, _ = pushOf(id, task)
	}
	if task != nil && (task.State == asynq.TaskStateScheduled || task.State == asynq.TaskStateRetry) && !state.Ended() {
		result.NextAttemptAt = task.NextProcessAt.UTC()
	}
	return result, nil
}

// RegisterQueues makes the channel's queues known to asynq's tools before the
// first task comes, so that "queue not found" is a fault from then on.
func RegisterQueues(ctx context.Context, client redis.UniversalClient, channel Channel) error {
	if err := client.SAdd(ctx, asynqQueuesKey, channel.ImmediateQueue(), channel.WindowQueue()).Err(); err != nil {
		return fmt.Errorf("register the queues of channel %s: %w", channel.Name, err)
	}
	return nil
}
