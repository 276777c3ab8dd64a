package tasks

import (
	"context"
	"crypto/sha256"
	_ "embed" // the script
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

var (
	//go:embed scripts/claim.lua
	claimSource string

	claimScript = redis.NewScript(claimSource)
)

// ErrContentDiffers means that the idempotency key was used before with other
// fields.
var ErrContentDiffers = errors.New("the idempotency key was used before with other content")

// A ReusedKeyError is ErrContentDiffers with the push that the key stands for.
type ReusedKeyError struct {
	Push  string // its ID
	Field string // of the notification that holds the key; "" for a push, which has a header
}

func (e *ReusedKeyError) Error() string {
	return fmt.Sprintf("%v: it stands for push %s", ErrContentDiffers, e.Push)
}

// Is makes it one of ErrContentDiffers.
func (e *ReusedKeyError) Is(target error) bool { return target == ErrContentDiffers }

var errStopping = fmt.Errorf("%w: the process is stopping", ErrNotStored)

// Intake puts accepted pushes into their queue. It is safe for concurrent use.
type Intake struct {
	channel   Channel
	retention Retention
	redis     redis.UniversalClient
	inspector *asynq.Inspector
	calls     calls
	enqueuer  *enqueuer
}

// NewIntake returns the intake of channel. The client may be an auto-pipeline,
// which ignores contexts; its own timeouts must bound every command.
func NewIntake(client redis.UniversalClient, channel Channel, retention Retention) *Intake {
	return &Intake{
		channel: channel, retention: retention, redis: client,
		inspector: asynq.NewInspectorFromRedisClient(client), enqueuer: newEnqueuer(client, channel, retention),
	}
}

// Close refuses new pushes, and those that Redis has not been asked to store,
// and returns when all calls to Redis have ended, those that their callers gave
// up included.
func (i *Intake) Close() {
	i.enqueuer.close()
	i.calls.close()
}

// Accept stores the push: after it returns nil, Redis has the task. Otherwise
// the error is ErrContentDiffers or ErrUnusableKey, or says with ErrNotStored or
// ErrOutcomeUnknown what may have become of the push. The caller waits no
// longer than its context.
//
// With keyed set, the ID comes from KeyedID, and a push that an earlier call
// has stored is not stored again: replayed is then true.
func (i *Intake) Accept(ctx context.Context, push Push, keyed bool) (replayed bool, err error) {
	enqueue := i.enqueue
	if keyed {
		enqueue = i.enqueueOnce
	}
	stored, err := enqueue(ctx, push)
	if err != nil {
		return false, fmt.Errorf("store push %s: %w", push.ID, err)
	}
	return keyed && !stored, nil
}

// call runs a call to Redis beside the caller, who waits on its own context.
func (i *Intake) call(ctx context.Context, do func(context.Context) error) error {
	if !i.calls.begin() {
		return errStopping
	}
	answer := make(chan error, 1)
	go func() {
		defer i.calls.end()
		answer <- func() (err error) {
			defer recovered(&err)
			return do(context.WithoutCancel(ctx))
		}()
	}()
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return givenUp(ctx)
	}
}

// givenUp is the error of a caller who waits no longer.
func givenUp(ctx context.Context) error {
	return fmt.Errorf("%w: %w", ErrOutcomeUnknown, context.Cause(ctx))
}

// enqueue reports whether this call stored the task; otherwise it was there
// already. Either way Redis has it: a fresh id can only meet itself, after a
// lost reply, and a keyed one meets the task of an earlier call.
//
// A push whose caller waits no longer is withdrawn, so that a Redis that stalls
// does not get it long after the caller has tried again. Only one that is on its
// way goes on without the caller.
func (i *Intake) enqueue(ctx context.Context, push Push) (stored bool, err error) {
	underway, err := i.enqueuer.enqueue(push)
	if err != nil {
		return false, err
	}
	select {
	case <-underway.done:
		return !underway.taken, underway.err
	case <-ctx.Done():
		if i.enqueuer.withdraw(underway) {
			return false, notSent(context.Cause(ctx))
		}
		return false, givenUp(ctx)
	}
}

// enqueueOnce claims the id first, so that two callers cannot enqueue different
// content, and then enqueues also when the claim was there already: its owner
// may have died in between.
func (i *Intake) enqueueOnce(ctx context.Context, push Push) (stored bool, err error) {
	claim, err := i.claim(ctx, push, secondsUntilForgotten(push, i.retention.Dead, push.CreatedAt.Time()))
	switch {
	case err != nil:
		return false, err
	case claim == ClaimOther:
		return false, &ReusedKeyError{Push: push.ID}
	case claim == ClaimEnded:
		return false, nil
	}
	stored, err = i.enqueue(ctx, push)
	if err == nil && !stored && claim == ClaimNew {
		return i.replaceForgotten(ctx, push)
	}
	return stored, err
}

// replaceForgotten stores a push whose id is taken although nobody had a claim
// on it. Either another caller with the same key was quicker with its enqueue,
// or asynq still keeps the task of a push whose claim and record have expired:
// that one makes room.
func (i *Intake) replaceForgotten(ctx context.Context, push Push) (stored bool, err error) {
	var free bool // belongs to the call; read only after it has ended
	if err := i.call(ctx, func(context.Context) (err error) {
		free, err = i.makeRoom(push)
		return err
	}); err != nil {
		return false, err
	}
	if !free {
		return false, nil
	}
	return i.enqueue(ctx, push)
}

// makeRoom deletes the forgotten task with the push's id, and reports whether
// there is none now.
func (i *Intake) makeRoom(push Push) (free bool, err error) {
	queue := i.channel.queue(push)
	task, err := i.inspector.GetTaskInfo(queue, push.ID)
	if errors.Is(err, asynq.ErrTaskNotFound) {
		return true, nil
	}
	if err != nil {
		return false, storeError(err)
	}
	old, err := DecodePush(push.ID, task.Payload)
	forgotten := err != nil || old.due().Time().Add(i.retention.Dead).Before(push.CreatedAt.Time())
	ended := task.State == asynq.TaskStateCompleted || task.State == asynq.TaskStateArchived
	if !forgotten || !ended {
		if err == nil && contentHash(old) != contentHash(push) {
			return false, &ReusedKeyError{Push: push.ID}
		}
		return false, nil
	}
	if err := i.inspector.DeleteTask(queue, push.ID); err != nil && !errors.Is(err, asynq.ErrTaskNotFound) {
		return false, storeError(err)
	}
	return true, nil
}

// A Claim is what an idempotency key has on a push.
type Claim string

// The claims, as claim.lua returns them. An open one may belong to a push that
// was never stored: its first caller may have died in between.
const (
	ClaimNew   Claim = "NEW"   // there was none
	ClaimOpen  Claim = "OPEN"  // the same content
	ClaimEnded Claim = "ENDED" // the same content, and its push has ended
	ClaimOther Claim = "OTHER" // other content
)

// Claim looks at the claim of a keyed push without making one.
//
// It serves a repeated POST whose push cannot be planned any more: the window
// that was to come at the first one may be gone for ever.
func (i *Intake) Claim(ctx context.Context, push Push) (Claim, error) {
	const lookOnly = 0
	claim, err := i.claim(ctx, push, lookOnly)
	if err != nil {
		return "", fmt.Errorf("look at the claim of push %s: %w", push.ID, err)
	}
	return claim, nil
}

func (i *Intake) claim(ctx context.Context, push Push, seconds int64) (Claim, error) {
	var claim string // belongs to the call; read only after it has ended
	if err := i.call(ctx, func(ctx context.Context) (err error) {
		key := i.channel.ClaimKey(push.ID)
		claim, err = claimScript.Run(ctx, i.redis, []string{key}, contentHash(push), seconds).Text()
		if err != nil {
			return storeError(aboutKey(key, err))
		}
		return nil
	}); err != nil {
		return "", err
	}
	return Claim(claim), nil
}

// contentHash covers what the caller posted, not what pushq made of it.
func contentHash(push Push) string {
	posted, _ := json.Marshal([]string{ // strings always encode
		push.Platform, push.MessagePrototypeKey, push.PushKey, push.Message, push.CronExpression, push.TimeZone,
	})
	sum := sha256.Sum256(posted)
	return hex.EncodeToString(sum[:16])
}
