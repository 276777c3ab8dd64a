package tasks

import (
	"context"
	_ "embed" // the scripts
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"pushq/internal/keytype"
	"pushq/scheduler"
	"pushq/scheduler/quartz"
)

var (
	//go:embed scripts/retry.lua
	retrySource string
	//go:embed scripts/cancel.lua
	cancelSource string
	//go:embed scripts/unlist.lua
	unlistSource string
	//go:embed scripts/reschedule.lua
	rescheduleSource string

	retryScript      = redis.NewScript(keytype.Source + recordSource + retrySource)
	cancelScript     = redis.NewScript(keytype.Source + recordSource + cancelSource)
	unlistScript     = redis.NewScript(keytype.Source + recordSource + unlistSource)
	rescheduleScript = redis.NewScript(rescheduleSource)
)

// RetryableStates lists the states in which Retry takes a push.
func RetryableStates() []State { return []State{Failed, GivenUp, Cancelled, Retry, Scheduled} }

// CancellableStates lists the states in which Cancel takes a push.
func CancellableStates() []State { return []State{Scheduled, Pending, Retry} }

// ErrIncomplete means that Redis did not answer while an operator's action was
// under way: it may have been done, in part or not at all. It may be repeated.
var ErrIncomplete = errors.New("redis did not answer, the action may be incomplete")

// A StateError means that the state of the push does not allow the action.
type StateError struct {
	Action string // "retried" or "cancelled"
	State  State
	// UnderWay says that the state would allow it, but an earlier attempt has not ended yet:
	// its worker has died or was cut off, or is just beginning.
	UnderWay bool
}

func (e *StateError) Error() string {
	if e.UnderWay {
		return fmt.Sprintf("a push that is %s cannot be %s while an earlier attempt may be under way", e.State, e.Action)
	}
	return fmt.Sprintf("a push that is %s cannot be %s", e.State, e.Action)
}

// A ClosedError means that the push may not be sent now.
type ClosedError struct {
	State State
	// NextOpening is zero if there is none.
	NextOpening time.Time
}

func (e *ClosedError) Error() string {
	if e.NextOpening.IsZero() {
		return "the window of the push never opens again"
	}
	return "the push may not be sent before " + e.NextOpening.UTC().Format(time.RFC3339)
}

// A SupersededError means that a message with the idempotency key of the push was
// stored as another push since, or sent: the push must not be sent too.
type SupersededError struct {
	State State
	By    string // id of the other push; "" if it is not known any more
}

func (e *SupersededError) Error() string {
	if e.By == "" {
		return "a message with the idempotency key of the push was sent already"
	}
	return "the idempotency key of the push stands for push " + e.By + " by now"
}

// Clock tells the time that all processes share (redisconn.Clock).
type Clock interface {
	Now() time.Time
}

// Operator does what people do to pushes, one or many. It is safe for concurrent use.
type Operator struct {
	// OnCancelled is called for every push that the operator ends. It may be
	// set before the first use.
	OnCancelled func()
	// Followers are told of the pushes that the operator cancels: those of this process' own
	// configuration; Redis knows the others. They may be set before the first use.
	Followers Followers
	// Interrupted is the age from which an attempt in process is that of a worker that
	// has died (InterruptedAfter): its push can be cancelled. It may be set before the
	// first use; without it, none is.
	Interrupted time.Duration

	channel   Channel
	retention Retention
	zone      *time.Location
	clock     Clock
	redis     redis.UniversalClient
	reader    *Reader
	inspector *asynq.Inspector
	asynq     *asynq.Client
	calls     calls
}

// NewOperator acts on the pushes of channel that reader finds. The zone is for
// windows of pushes that name none.
func NewOperator(client redis.UniversalClient, channel Channel, retention Retention, reader *Reader, zone *time.Location, clock Clock) *Operator {
	return &Operator{
		OnCancelled: func() {},
		Interrupted: math.MaxInt64,
		channel:     channel, retention: retention, zone: zone, clock: clock, redis: client, reader: reader,
		inspector: asynq.NewInspectorFromRedisClient(client), asynq: asynq.NewClientFromRedisClient(client),
	}
}

// Close refuses new actions and returns when all have ended, those that their
// callers gave up included.
func (o *Operator) Close() {
	o.calls.close()
}

// begin counts an action, which ends with calls.end.
func (o *Operator) begin() error {
	if !o.calls.begin() {
		return fmt.Errorf("%w: the process is stopping", ErrUnreadable)
	}
	return nil
}

// Retry puts a push that is FAILED, GIVEN_UP, CANCELLED, RETRY or SCHEDULED
// into the queue now, with as many attempts before it as a new one. One that is
// CANCELLED and may not be sent now is SCHEDULED again for its next opening: a
// cancel can be taken back at any time. The idempotency key of a notification
// stands for its push again (Intake.Notify).
//
// The error is ErrNotFound, a *StateError, a *ClosedError if any other push may not
// be sent now, or one that is CANCELLED never again, or a *SupersededError; ErrUnreadable or ErrNotStored if nothing has
// been done, ErrIncomplete if that is not certain.
func (o *Operator) Retry(ctx context.Context, id string) error {
	if err := o.beside(ctx, id, o.retry); err != nil {
		return fmt.Errorf("retry push %s: %w", id, err)
	}
	return nil
}

// Cancel ends a push that is SCHEDULED, PENDING or RETRY: it will not be sent.
// Only Retry takes that back.
//
// The error is ErrNotFound or a *StateError; ErrUnreadable or ErrNotStored if
// nothing has been done, ErrIncomplete if that is not certain.
func (o *Operator) Cancel(ctx context.Context, id string) error {
	if err := o.beside(ctx, id, o.cancel); err != nil {
		return fmt.Errorf("cancel push %s: %w", id, err)
	}
	return nil
}

// An action is done to a push that has been found; the task or the record is
// nil if there is none.
type action func(ctx context.Context, found Report, task *asynq.TaskInfo, record *Record) error

// beside lets a caller give up: asynq's Inspector knows no contexts, and an
// action that has begun is better finished. The client's own timeouts end it.
func (o *Operator) beside(ctx context.Context, id string, act action) error {
	if !ValidID(id) {
		return ErrNotFound
	}
	if err := o.begin(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() {
		defer o.calls.end()
		done <- o.lookAndAct(context.WithoutCancel(ctx), id, act)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrIncomplete, context.Cause(ctx))
	}
}

func (o *Operator) lookAndAct(ctx context.Context, id string, act action) error {
	task, record, err := o.reader.find(ctx, id)
	if err != nil {
		return err
	}
	found, err := report(id, task, record)
	if err != nil {
		return err
	}
	return act(ctx, found, task, record)
}

// retry takes the end out of the record before it runs the task: the other way
// round, a worker would find the end. If the process dies in between, the task
// is still where it was, and Retry can be repeated.
func (o *Operator) retry(ctx context.Context, found Report, task *asynq.TaskInfo, record *Record) error {
	opening, err := o.retryOpening(ctx, found, task)
	if err != nil {
		return err
	}
	key := found.Push.notificationKey()
	openSeconds := o.openSeconds(found.Push, opening)
	if err := o.takeBack(ctx, found, record, openSeconds); err != nil {
		return err
	}
	if key != "" {
		// Before the task is run: it must not hide what becomes of the push. If others
		// read that it was sent by now, Begin knows of it.
		if _, err := writeProcessing(ctx, o.redis, key, openSeconds); err != nil {
			return fmt.Errorf("%w: %w", ErrIncomplete, err)
		}
	}
	id := found.Push.ID
	if err := o.queue(ctx, task, found.Push, opening); err != nil {
		return err
	}
	// A push that stays in the index although it is under way does no harm:
	// whoever lists it looks at its state.
	_ = unlistScript.Run(ctx, o.redis, []string{o.channel.RecordKey(id), o.channel.DeadKey()}, id).Err()
	return nil
}

// mayRetry returns why a push cannot be retried, as far as looking at it tells.
func (o *Operator) mayRetry(ctx context.Context, found Report, task *asynq.TaskInfo, _ *Record) error {
	_, err := o.retryOpening(ctx, found, task)
	return err
}

// retryOpening is mayRetry, and returns when the push would be put into the queue: zero for
// now.
func (o *Operator) retryOpening(ctx context.Context, found Report, task *asynq.TaskInfo) (opening time.Time, err error) {
	if !slices.Contains(RetryableStates(), found.State) {
		return opening, &StateError{Action: "retried", State: found.State}
	}
	if err := intact(task); err != nil {
		return opening, err
	}
	if opening, err = o.nextOpening(found); err != nil {
		return opening, err
	}
	if key := found.Push.notificationKey(); key != "" {
		return opening, o.checkUnsent(ctx, found.Push, key, found.State)
	}
	return opening, nil
}

// checkUnsent refuses a push whose message was sent by somebody else: the push
// itself was not.
func (o *Operator) checkUnsent(ctx context.Context, push Push, key string, state State) error {
	told, err := o.redis.Get(ctx, IdempotencyStateKey(key)).Result()
	switch {
	case isWrongType(err):
		return nil // as idempotency_state.lua, which writes over it
	case err != nil && !errors.Is(err, redis.Nil):
		return fmt.Errorf("read an idempotency state: %w: %w", ErrUnreadable, err)
	case told == IdempotencySent:
		by, err := o.keyStandsFor(ctx, push)
		if err != nil {
			return err
		}
		return &SupersededError{State: state, By: by}
	}
	return nil
}

// keyStandsFor returns the push other than this one for which its idempotency key stands;
// "" if that is not known any more.
func (o *Operator) keyStandsFor(ctx context.Context, push Push) (string, error) {
	claim, err := o.redis.Get(ctx, o.channel.ClaimKey(push.claimID())).Result()
	if err != nil && !errors.Is(err, redis.Nil) && !isWrongType(err) {
		return "", fmt.Errorf("read a claim: %w: %w", ErrUnreadable, err)
	}
	id := strings.TrimSuffix(claim, claimEnded)
	if id == push.ID || !ValidID(id) {
		return "", nil
	}
	return id, nil
}

// takeBack takes the end out of the record, if nothing has happened to the push
// since it was read. The record and the claim live for openSeconds then.
func (o *Operator) takeBack(ctx context.Context, found Report, record *Record, openSeconds int64) error {
	push := found.Push
	content, err := push.content()
	if err != nil {
		return err
	}
	keys := []string{o.channel.RecordKey(push.ID), o.channel.ClaimKey(push.claimID())}
	forbids, err := retryScript.Run(ctx, o.redis, keys,
		push.ID, content, endSeen(record), openSeconds,
	).StringSlice()
	switch {
	case err != nil:
		return notWritten(err)
	case forbids[0] != "":
		return &StateError{Action: "retried", State: State(forbids[0])}
	case forbids[1] != "":
		return &SupersededError{State: found.State, By: forbids[1]}
	}
	return nil
}

// openSeconds is how long what is kept of a push lives that waits for the given opening;
// zero is none. That may be long after the time at which the push was first due.
func (o *Operator) openSeconds(push Push, opening time.Time) int64 {
	now := time.Now()
	return max(secondsUntilForgotten(push, o.retention.Dead, now), secondsKept(opening, o.retention.Dead, now))
}

// notWritten is the error of an action whose first write failed.
func notWritten(err error) error {
	if writeRefusal(err) != "" {
		return storeError(err)
	}
	return fmt.Errorf("%w: %w", ErrIncomplete, err)
}

// intact refuses a task that has lost its content, as only keys deleted by hand
// leave it: asynq tells of such a one without an id.
func intact(task *asynq.TaskInfo) error {
	if task != nil && task.ID == "" {
		return fmt.Errorf("%w: the task has lost its content, which pushq doctor --fix puts right", ErrUnreadable)
	}
	return nil
}

// nextOpening is when a push is put into the queue: zero for now. It leaves it to the
// handler to end a push whose expression cannot be read.
func (o *Operator) nextOpening(found Report) (time.Time, error) {
	now := o.clock.Now()
	opening, err := found.Push.Opening(now, o.zone)
	switch {
	case errors.Is(err, quartz.ErrNever):
		return time.Time{}, &ClosedError{State: found.State}
	case err != nil || !opening.After(now):
		return time.Time{}, nil
	case found.State != Cancelled:
		return time.Time{}, &ClosedError{State: found.State, NextOpening: opening}
	}
	return opening, nil
}

// queue makes the task pending, or scheduled for a time that is not zero. If asynq has
// forgotten it (nil), it is a new one.
func (o *Operator) queue(ctx context.Context, task *asynq.TaskInfo, push Push, at time.Time) error {
	var err error
	switch {
	case task == nil:
		err = o.enqueue(ctx, push, at)
	case at.IsZero():
		err = o.inspector.RunTask(task.Queue, push.ID)
	default:
		err = o.reschedule(ctx, task.Queue, push.ID, at)
	}
	if errors.Is(err, asynq.ErrTaskNotFound) {
		// Taken out of the archive since, maybe with an end for its record.
		return o.lookAndAct(ctx, push.ID, o.retry)
	}
	if err == nil {
		return nil
	}
	// Somebody else may have been quicker. asynq has no error of its own for
	// a task that is pending or active already.
	now, lookErr := o.reader.look(ctx, push.ID)
	if lookErr == nil && (now.State == Pending || now.State == InMemory || errors.Is(err, asynq.ErrTaskIDConflict)) {
		return &StateError{Action: "retried", State: now.State}
	}
	return fmt.Errorf("%w: %w", ErrIncomplete, err)
}

func (o *Operator) enqueue(ctx context.Context, push Push, at time.Time) error {
	task, err := newTask(o.channel, push, o.retention)
	if err != nil {
		return err
	}
	var options []asynq.Option
	if !at.IsZero() {
		options = append(options, asynq.ProcessAt(scheduler.CeilSecond(at)))
	}
	_, err = o.asynq.EnqueueContext(ctx, task, options...)
	return err
}

// reschedule does what asynq's Inspector does not offer. Its error is asynq's own if the
// task is gone.
func (o *Operator) reschedule(ctx context.Context, queue, id string, at time.Time) error {
	state, err := rescheduleScript.Run(ctx, o.redis, []string{
		asynqTaskKey(queue, id), asynqStateKey(queue, asynq.TaskStateScheduled),
		asynqStateKey(queue, asynq.TaskStateRetry), asynqStateKey(queue, asynq.TaskStateArchived),
	}, id, scheduler.CeilSecond(at).Unix()).Text()
	switch {
	case err != nil:
		return fmt.Errorf("schedule task %s of queue %s: %w", id, queue, err)
	case state == "GONE":
		return asynq.ErrTaskNotFound
	case state != asynq.TaskStateScheduled.String():
		return fmt.Errorf("task %s of queue %s is %s", id, queue, state)
	}
	return nil
}

// cancel marks the record before it archives the task: a worker that takes the
// task in between is refused by Begin, and archives it itself, if not now then when its
// run gets as far as that (it may be put back for its window or a breaker before).
func (o *Operator) cancel(ctx context.Context, found Report, task *asynq.TaskInfo, record *Record) error {
	if err := o.mayCancel(ctx, found, task, record); err != nil {
		return err
	}
	id := found.Push.ID
	content, err := found.Push.content()
	if err != nil {
		return err
	}
	keys := []string{o.channel.RecordKey(id), o.channel.DeadKey(), o.channel.ClaimKey(found.Push.claimID()), o.channel.FollowersKey()}
	state, err := cancelScript.Run(ctx, o.redis, keys,
		id, content, endSeen(record), seconds(o.retention.Dead), o.Followers.argument(),
		o.Interrupted.Milliseconds(),
	).Text()
	if err != nil {
		return notWritten(err)
	}
	if State(state) == InMemory && found.State != InMemory {
		return &StateError{Action: "cancelled", State: found.State, UnderWay: true}
	}
	if State(state) != Cancelled {
		return &StateError{Action: "cancelled", State: State(state)}
	}
	o.OnCancelled()
	return o.archive(ctx, task.Queue, id) // the three states are of a push with a task
}

// mayCancel returns why a push cannot be cancelled, as far as looking at it tells.
func (o *Operator) mayCancel(_ context.Context, found Report, task *asynq.TaskInfo, _ *Record) error {
	if !slices.Contains(CancellableStates(), found.State) {
		return &StateError{Action: "cancelled", State: found.State}
	}
	return intact(task)
}

// archive takes the task of a cancelled push out of the queue.
func (o *Operator) archive(ctx context.Context, queue, id string) error {
	err := o.inspector.ArchiveTask(queue, id)
	if err == nil || errors.Is(err, asynq.ErrTaskNotFound) {
		return nil
	}
	// A worker that has it now will archive it (see cancel), and may have done so.
	if now, lookErr := o.reader.look(ctx, id); lookErr == nil && (now.State == InMemory || now.State == Cancelled) {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrIncomplete, err)
}

// endSeen is the time of the record's end, 0 if there is none.
func endSeen(record *Record) int64 {
	if record == nil {
		return 0
	}
	return int64(record.EndedAt)
}
