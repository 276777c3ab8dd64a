package tasks

import (
	"context"
	"crypto/sha256"
	_ "embed" // the script
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"pushq/scheduler"
)

var (
	//go:embed scripts/claim.lua
	claimSource string

	claimScript = redis.NewScript(claimSource)
)

const (
	// maxRetry is never reached: the record counts attempts, and the handler
	// alone ends a push (asynq would archive one whose Retried has drifted).
	maxRetry = 1_000_000

	// taskTimeout bounds one run of the handler: a minute's wait for a slot,
	// the provider's timeout, and room.
	taskTimeout = 10 * time.Minute
)

// claimEnded is what the scripts add to a claim once its push has ended.
const claimEnded = " ended"

// ErrContentDiffers means that the idempotency key was used before with other
// fields.
var ErrContentDiffers = errors.New("the idempotency key was used before with other content")

// Intake puts accepted pushes into their queue. It is safe for concurrent use.
type Intake struct {
	channel   Channel
	retention Retention
	redis     redis.UniversalClient
	asynq     *asynq.Client
	calls     sync.WaitGroup
}

// NewIntake returns the intake of channel. The client may be an auto-pipeline,
// which ignores contexts; its own timeouts must bound every command.
func NewIntake(client redis.UniversalClient, channel Channel, retention Retention) *Intake {
	return &Intake{channel: channel, retention: retention, redis: client, asynq: asynq.NewClientFromRedisClient(client)}
}

// Wait returns when the calls that their callers gave up have ended too.
func (i *Intake) Wait() { i.calls.Wait() }

// Accept stores the push: after it returns nil, Redis has the task. Otherwise
// the error is ErrContentDiffers, or says with ErrNotStored or
// ErrOutcomeUnknown what may have become of the push. The caller waits no
// longer than its context.
//
// With keyed set, the ID comes from KeyedID, and a push that an earlier call
// has stored is not stored again: replayed is then true.
func (i *Intake) Accept(ctx context.Context, push Push, keyed bool) (replayed bool, err error) {
	type result struct {
		replayed bool
		err      error
	}
	answer := make(chan result, 1)
	i.calls.Go(func() {
		detached := context.WithoutCancel(ctx)
		if !keyed {
			answer <- result{err: i.enqueue(detached, push)}
			return
		}
		replayed, err := i.enqueueOnce(detached, push)
		answer <- result{replayed, err}
	})
	select {
	case got := <-answer:
		return got.replayed, got.err
	case <-ctx.Done():
		return false, fmt.Errorf("store push %s: %w", push.ID, errors.Join(ErrOutcomeUnknown, context.Cause(ctx)))
	}
}

func (i *Intake) enqueue(ctx context.Context, push Push) error {
	payload, err := push.encode()
	if err != nil {
		return err
	}
	options := []asynq.Option{
		asynq.TaskID(push.ID),
		asynq.Queue(i.queue(push)),
		asynq.MaxRetry(maxRetry),
		asynq.Timeout(taskTimeout),
		asynq.Retention(i.retention.Completed),
	}
	if push.DueAt > push.CreatedAt {
		options = append(options, asynq.ProcessAt(scheduler.CeilSecond(push.DueAt.Time())))
	}
	_, err = i.asynq.EnqueueContext(ctx, asynq.NewTask(i.channel.TaskType(), payload), options...)
	// A fresh id can only meet itself, after a lost reply; a keyed one meets
	// the task of an earlier call. Either way Redis has the task.
	if err != nil && !errors.Is(err, asynq.ErrTaskIDConflict) {
		return fmt.Errorf("enqueue push %s: %w", push.ID, storeError(err))
	}
	return nil
}

// enqueueOnce claims the id first, so that two callers cannot enqueue different
// content, and then enqueues also when the claim was there already: its owner
// may have died in between.
func (i *Intake) enqueueOnce(ctx context.Context, push Push) (replayed bool, err error) {
	claim, err := claimScript.Run(ctx, i.redis, []string{i.channel.ClaimKey(push.ID)},
		contentHash(push), secondsUntilForgotten(push, i.retention.Dead, push.CreatedAt.Time()),
	).Text()
	if err != nil {
		return false, fmt.Errorf("claim push %s: %w", push.ID, storeError(err))
	}
	switch claim {
	case "OTHER":
		return false, ErrContentDiffers
	case "ENDED":
		return true, nil
	default:
		return claim == "REPEATED", i.enqueue(ctx, push)
	}
}

// A ClaimState is what an idempotency key has on a push.
type ClaimState string

// The states of a claim. An open one may belong to a push that was never
// stored: its first caller may have died in between.
const (
	Unclaimed  ClaimState = ""
	ClaimOpen  ClaimState = "open"
	ClaimEnded ClaimState = "ended"
)

// Claim looks at the claim of a keyed push without making one.
// ErrContentDiffers if the key was used for other content.
//
// It serves a repeated POST whose push cannot be planned any more: the window
// that was to come at the first one may be gone for ever.
func (i *Intake) Claim(ctx context.Context, push Push) (ClaimState, error) {
	claim, err := i.redis.Get(ctx, i.channel.ClaimKey(push.ID)).Result()
	switch hash := contentHash(push); {
	case errors.Is(err, redis.Nil):
		return Unclaimed, nil
	case err != nil:
		return Unclaimed, fmt.Errorf("read the claim of push %s: %w", push.ID, errors.Join(ErrUnreadable, err))
	case claim == hash:
		return ClaimOpen, nil
	case claim == hash+claimEnded:
		return ClaimEnded, nil
	default:
		return Unclaimed, ErrContentDiffers
	}
}

func (i *Intake) queue(push Push) string {
	if push.Windowed() {
		return i.channel.WindowQueue()
	}
	return i.channel.ImmediateQueue()
}

// contentHash covers what the caller posted, not what pushq made of it.
func contentHash(push Push) string {
	posted, _ := json.Marshal([]string{ // strings always encode
		push.Platform, push.MessagePrototypeKey, push.PushKey, push.Message, push.CronExpression, push.TimeZone,
	})
	sum := sha256.Sum256(posted)
	return hex.EncodeToString(sum[:16])
}
