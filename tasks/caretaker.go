package tasks

import (
	"context"
	_ "embed" // the script
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"
)

var (
	//go:embed scripts/archive_take.lua
	archiveTakeSource string

	archiveTakeScript = redis.NewScript(archiveTakeSource)
)

// archiveLookups is how many archived tasks are taken at once.
const archiveLookups = 8

// A Caretaker takes pushes of a channel back from workers that have died, keeps
// asynq's archives small, and the queues registered.
//
// Left alone, asynq deletes what is beyond 9,999 archived tasks or
// 90 days, and when about 8,000 pass that age at once its script fails half-way
// and archiving stops (v0.26.0, internal/rdb: archiveCmd).
//
// What it takes out of an archive stays in the records. Several caretakers, in
// one process or many, do not disturb each other. The fields may be changed
// before the first use; a Caretaker itself is for one goroutine.
type Caretaker struct {
	// Interval is the time between two rounds of Run.
	Interval time.Duration
	// More than MaxArchived tasks in an archive are taken down to the newest
	// KeptArchived.
	MaxArchived, KeptArchived int
	// MaxAge is how long a task may be archived.
	MaxAge time.Duration
	// Batch and BatchTime bound what one round does in each queue.
	Batch     int
	BatchTime time.Duration

	channel   Channel
	redis     redis.UniversalClient
	records   *Records
	inspector *asynq.Inspector
	log       *slog.Logger

	trimming map[string]bool // the queues on their way down to KeptArchived
	failing  bool
}

// NewCaretaker returns a caretaker of the channel's queues in the Redis behind
// client, with the limits for production.
func NewCaretaker(client redis.UniversalClient, channel Channel, records *Records, log *slog.Logger) *Caretaker {
	return &Caretaker{
		Interval:    time.Second,
		MaxArchived: 8000, KeptArchived: 7000,
		MaxAge: 30 * 24 * time.Hour,
		Batch:  500, BatchTime: 500 * time.Millisecond,

		channel: channel, redis: client, records: records,
		inspector: asynq.NewInspectorFromRedisClient(client), log: log,
		trimming: make(map[string]bool),
	}
}

// CatchUp repeats rounds until there is nothing more to do, something fails, or
// ctx ends. It is for the time before the workers start: their first failure
// must not meet an archive that nobody has cared for.
func (c *Caretaker) CatchUp(ctx context.Context) {
	for ctx.Err() == nil && c.round(ctx) > 0 {
	}
}

// Run makes a round every Interval until ctx ends. It logs an outage once, not
// each time.
func (c *Caretaker) Run(ctx context.Context) {
	ticker := time.NewTicker(c.Interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			c.round(ctx)
		}
	}
}

// round returns how many tasks it has moved, 0 if anything failed.
func (c *Caretaker) round(ctx context.Context) int {
	taken, err := c.tidy(ctx)
	if ctx.Err() != nil {
		return 0
	}
	if err != nil {
		if !c.failing {
			c.log.Warn("cannot care for asynq's queues, trying again", slog.Any("error", err))
		}
		c.failing = true
		return 0
	}
	if c.failing {
		c.log.Info("caring for asynq's queues again")
	}
	c.failing = false
	return taken
}

func (c *Caretaker) tidy(ctx context.Context) (taken int, err error) {
	if err := RegisterQueues(ctx, c.redis, c.channel); err != nil {
		return 0, err
	}
	now, err := c.redis.Time(ctx).Result() // a host whose clock has jumped must take nothing for old
	if err != nil {
		return 0, fmt.Errorf("read the time of redis: %w", err)
	}
	var failures []error
	for _, queue := range c.channel.Queues() {
		back, err := c.takeBack(ctx, queue)
		failures = append(failures, err, c.setAside(ctx, queue))
		archived, err := c.tidyQueue(ctx, queue, now)
		failures = append(failures, err)
		taken += back + archived
	}
	return taken, errors.Join(failures...)
}

func (c *Caretaker) tidyQueue(ctx context.Context, queue string, now time.Time) (int, error) {
	surplus, err := c.surplus(ctx, queue, now)
	if err != nil {
		return 0, err
	}
	var taken atomic.Int64
	var takes errgroup.Group
	takes.SetLimit(archiveLookups)
	deadline := time.Now().Add(c.BatchTime)
	for _, oldest := range surplus {
		if ctx.Err() != nil || time.Now().After(deadline) {
			break
		}
		takes.Go(func() error {
			// What has been begun is finished, also while the process stops.
			gone, err := c.take(context.WithoutCancel(ctx), queue, oldest, now)
			if gone {
				taken.Add(1)
			}
			return err
		})
	}
	err = takes.Wait()
	return int(taken.Load()), err
}

// An archivedTask is a member of an archive.
type archivedTask struct {
	id string
	at time.Time // in whole seconds
}

// surplus returns the tasks that are to leave the archive, oldest first, and no
// more than a batch of them. Size and members are of one instant: otherwise two
// caretakers would take each other's share from the newer ones.
func (c *Caretaker) surplus(ctx context.Context, queue string, now time.Time) ([]archivedTask, error) {
	archive := asynqStateKey(queue, asynq.TaskStateArchived)
	var size *redis.IntCmd
	var members *redis.ZSliceCmd
	if _, err := c.redis.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		size = pipe.ZCard(ctx, archive)
		members = pipe.ZRangeWithScores(ctx, archive, 0, int64(c.Batch)-1)
		return nil
	}); err != nil {
		return nil, fmt.Errorf("read %s: %w: %w", archive, ErrUnreadable, err)
	}
	archived := int(size.Val())
	c.trimming[queue] = archived > c.MaxArchived || c.trimming[queue] && archived > c.KeptArchived

	var surplus []archivedTask
	for place, member := range members.Val() {
		id, _ := member.Member.(string)
		task := archivedTask{id: id, at: time.Unix(int64(member.Score), 0)}
		tooMany := c.trimming[queue] && place < archived-c.KeptArchived
		if !tooMany && now.Sub(task.at) <= c.MaxAge {
			break // and so are all after it
		}
		surplus = append(surplus, task)
	}
	return surplus, nil
}

// take moves one task from the archive to the records, and reports whether it
// is in the archive no more.
func (c *Caretaker) take(ctx context.Context, queue string, archived archivedTask, now time.Time) (gone bool, err error) {
	id := archived.id
	task, err := c.inspector.GetTaskInfo(queue, id)
	if errors.Is(err, asynq.ErrTaskNotFound) {
		return c.remove(ctx, queue, id) // only its id was left
	}
	if err != nil {
		return false, fmt.Errorf("read task %s of queue %s: %w: %w", id, queue, ErrUnreadable, err)
	}
	if task.State != asynq.TaskStateArchived {
		return false, nil
	}
	record, err := c.records.Get(ctx, id)
	if err != nil {
		return false, err
	}
	// A record that is gone after its time is not written again: the push would
	// be shown as one that has just ended.
	forgotten := record == nil && now.Sub(archived.at) >= c.records.retention.Dead
	if forgotten || record != nil && record.End != "" {
		return c.remove(ctx, queue, id)
	}

	push, _ := pushOf(id, task) // without its payload it still has its id
	end, _ := StateOf(task, record)
	if end == Cancelled {
		return c.cancel(ctx, queue, push)
	}
	if err := c.records.End(ctx, push, end); err != nil {
		return false, err
	}
	return c.remove(ctx, queue, id)
}

// cancel takes a push that an operator has archived. It ends the record after
// the task is gone, not before: a push that the operator requeues at this
// moment would be stopped by a record that says CANCELLED. Until then, and if
// this process dies in between, a record without an end and without a task
// says CANCELLED too (StateOf).
func (c *Caretaker) cancel(ctx context.Context, queue string, push Push) (gone bool, err error) {
	if err := c.records.End(ctx, push, ""); err != nil {
		return false, err
	}
	gone, err = c.remove(ctx, queue, push.ID)
	if err != nil || !gone {
		return false, err
	}
	return true, c.records.End(ctx, push, Cancelled)
}

// remove takes the task away from asynq if it is still archived, and reports
// whether asynq does not have it any more.
func (c *Caretaker) remove(ctx context.Context, queue, id string) (gone bool, err error) {
	return takeFromArchive(ctx, c.redis, queue, id)
}

func takeFromArchive(ctx context.Context, client redis.UniversalClient, queue, id string) (gone bool, err error) {
	answer, err := archiveTakeScript.Run(ctx, client,
		[]string{asynqStateKey(queue, asynq.TaskStateArchived), asynqTaskKey(queue, id)}, id).Text()
	if err != nil {
		return false, fmt.Errorf("take task %s from the archive of queue %s: %w", id, queue, err)
	}
	return answer == "GONE", nil
}
