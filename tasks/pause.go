package tasks

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// A QueueStatus is what an operator wants to know of a queue at a glance. It is
// read without asynq's own statistics, which one ghost can break.
type QueueStatus struct {
	Queue  string
	Paused bool
	// Lasts is how long the pause goes on by itself; 0 is until somebody ends it.
	Lasts time.Duration
	// Changed says that the call that returned this has paused or resumed the
	// queue; otherwise it was so before.
	Changed bool

	Pending, Active, Scheduled, Retry, Archived int64
}

// Pause stops both queues of the channel: workers take nothing more from them
// until Resume, whatever process they are in. New pushes are still accepted,
// and what a worker has taken already is finished. A pause that is to last for a
// while (0 is one without an end) is ended by Redis itself, which forgets the key: no
// process is needed for that. It takes the place of an earlier pause. The note says who
// pauses. The sizes are those right after it.
func Pause(ctx context.Context, client redis.UniversalClient, channel Channel, note OperatorNote, lasts time.Duration) ([]QueueStatus, error) {
	if err := WriteOperatorNote(ctx, client, channel, NotePause, note); err != nil {
		return nil, err
	}
	return eachQueue(channel, func(queue string) (QueueStatus, error) {
		// The value is the one that asynq's Inspector writes, which only looks whether the
		// key is there, and takes a second pause for an error. Here it is the note's time, by
		// which IsNotedBy knows the pause again.
		err := client.SetArgs(ctx, asynqPausedKey(queue), note.At.Time().Unix(), redis.SetArgs{TTL: lasts, Get: true}).Err()
		first := errors.Is(err, redis.Nil) // there was no value before
		if err != nil && !first {
			return QueueStatus{}, fmt.Errorf("pause queue %s: %w", queue, err)
		}
		status, err := ReadQueueStatus(ctx, client, queue)
		status.Changed = first
		return status, err
	})
}

// Resume lets workers take pushes from both queues of the channel again. The
// sizes are those right before, which is what has gathered: workers begin to
// take it at once. The note says who resumes.
func Resume(ctx context.Context, client redis.UniversalClient, channel Channel, note OperatorNote) ([]QueueStatus, error) {
	if err := WriteOperatorNote(ctx, client, channel, NotePause, note); err != nil {
		return nil, err
	}
	return eachQueue(channel, func(queue string) (QueueStatus, error) {
		status, err := ReadQueueStatus(ctx, client, queue)
		if err != nil {
			return QueueStatus{}, err
		}
		deleted, err := client.Del(ctx, asynqPausedKey(queue)).Result()
		if err != nil {
			return QueueStatus{}, fmt.Errorf("resume queue %s: %w", queue, err)
		}
		status.Paused, status.Lasts, status.Changed = false, 0, deleted > 0
		return status, nil
	})
}

func eachQueue(channel Channel, change func(queue string) (QueueStatus, error)) ([]QueueStatus, error) {
	var all []QueueStatus
	for _, queue := range channel.Queues() {
		status, err := change(queue)
		if err != nil {
			return all, err
		}
		all = append(all, status)
	}
	return all, nil
}

// ReadQueueStatus returns what there is of a queue, whether asynq knows it or not.
func ReadQueueStatus(ctx context.Context, client redis.UniversalClient, queue string) (QueueStatus, error) {
	pipe := client.Pipeline()
	pause := readPause(ctx, pipe, queue)
	pending := sizeOf(ctx, pipe, queue, asynq.TaskStatePending)
	active := sizeOf(ctx, pipe, queue, asynq.TaskStateActive)
	scheduled := sizeOf(ctx, pipe, queue, asynq.TaskStateScheduled)
	retry := sizeOf(ctx, pipe, queue, asynq.TaskStateRetry)
	archived := sizeOf(ctx, pipe, queue, asynq.TaskStateArchived)
	if _, err := pipe.Exec(ctx); err != nil {
		return QueueStatus{}, fmt.Errorf("read the sizes of queue %s: %w: %w", queue, ErrUnreadable, err)
	}
	return QueueStatus{
		Queue: queue, Paused: pause.holds(), Lasts: pause.lasts(),
		Pending: pending.Val(), Active: active.Val(), Scheduled: scheduled.Val(), Retry: retry.Val(), Archived: archived.Val(),
	}, nil
}

// A QueuePause is that of one queue.
type QueuePause struct {
	Queue string
	// Lasts is how long it goes on by itself; 0 is until somebody ends it.
	Lasts time.Duration

	began string // as it is stored: seconds since 1970
}

// IsNotedBy reports whether the note is about this pause. asynq's tools leave none, so the
// latest note may be about an earlier pause.
func (p QueuePause) IsNotedBy(note OperatorNote) bool {
	return strings.HasPrefix(note.Action, NotePause) && p.began == strconv.FormatInt(note.At.Time().Unix(), 10)
}

// Pauses returns those of the channel's queues that somebody has paused.
func Pauses(ctx context.Context, client redis.UniversalClient, channel Channel) ([]QueuePause, error) {
	var all []QueuePause
	for _, queue := range channel.Queues() {
		pipe := client.Pipeline()
		pause := readPause(ctx, pipe, queue)
		began := pipe.Get(ctx, asynqPausedKey(queue))
		if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
			return nil, fmt.Errorf("tell whether queue %s is paused: %w: %w", queue, ErrUnreadable, err)
		}
		if pause.holds() {
			all = append(all, QueuePause{Queue: queue, Lasts: pause.lasts(), began: began.Val()})
		}
	}
	return all, nil
}

// PausedQueues returns the names of the channel's queues that somebody has paused.
func PausedQueues(ctx context.Context, client redis.UniversalClient, channel Channel) ([]string, error) {
	pauses, err := Pauses(ctx, client, channel)
	var names []string
	for _, pause := range pauses {
		names = append(names, pause.Queue)
	}
	return names, err
}

// A pauseReading is the command that tells whether a queue is paused, and for how long.
type pauseReading struct{ *redis.DurationCmd }

func readPause(ctx context.Context, pipe redis.Pipeliner, queue string) pauseReading {
	return pauseReading{pipe.PTTL(ctx, asynqPausedKey(queue))}
}

// noKey is what PTTL says of a key that is not there. Of one without an end it says -1.
const noKey = -2

func (r pauseReading) holds() bool { return r.Err() == nil && r.Val() != noKey }

func (r pauseReading) lasts() time.Duration { return max(r.Val(), 0) }
