package tasks

import (
	"bytes"
	"context"
	_ "embed" // the script
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/redis/go-redis/v9"

	"pushq/internal/tracing"
)

var (
	//go:embed scripts/claim_replace.lua
	claimReplaceSource string

	claimReplaceScript = redis.NewScript(claimReplaceSource)
)

// claimEnded follows the fingerprint, or the id, in the claim of a push that has ended:
// see scripts/record.lua, which writes it, and scripts/claim.lua, which reads it.
const claimEnded = " ended"

// Notify stores the push of a message that ParseNotification has read, once for each
// idempotency key. replayed means that an earlier message with the key has been stored
// and is under way, or was sent within the last day; id is its push, or "" if that is
// not known any more. A key whose push has failed or was cancelled can be used again.
//
// A message that asks for something else than that push is no repetition of it, and must
// not be lost with it if it fails: the error is ErrContentDiffers then. (Where nothing
// is kept of the content of a push that was sent, any message with its key is a
// repetition.)
//
// The claim that a key has on its push is what decides. A crash between the claim and
// the push loses nothing: the next message with the key stores the push. Other errors are
// as with Accept, or ErrUnreadable.
func (i *Intake) Notify(ctx context.Context, notification Notification, message []byte, now time.Time) (id string, replayed bool, err error) {
	push := newNotificationPush(notification, message, "")
	push.CreatedAt = MillisOf(now)
	var claimed claimedKey // belongs to the call; read only after it has ended
	if err := i.call(ctx, func(ctx context.Context) (err error) {
		claimed, err = i.claimKey(ctx, push, notification.IdempotencyKey)
		return err
	}); err != nil {
		return "", false, fmt.Errorf("store a notification: %w", err)
	}
	push.ID = claimed.id
	if !claimed.sent {
		stored, err := i.enqueue(ctx, push)
		if err != nil {
			return "", false, fmt.Errorf("store push %s: %w", push.ID, err)
		}
		if stored {
			return push.ID, false, nil
		}
	}
	if err := i.call(ctx, func(ctx context.Context) error {
		return i.checkRepetition(ctx, push.ID, notification)
	}); err != nil {
		return "", false, fmt.Errorf("store a notification: %w", err)
	}
	return push.ID, true, nil
}

// checkRepetition compares a message with the push that its key stands for, as that is in
// its task or its record.
func (i *Intake) checkRepetition(ctx context.Context, id string, notification Notification) error {
	if id == "" {
		return nil
	}
	records := NewRecords(i.redis, i.channel, i.retention)
	earlier, err := NewReader(i.redis, i.channel, records).look(ctx, id)
	if errors.Is(err, ErrNotFound) {
		return nil // it was sent, and has been forgotten
	}
	if err != nil {
		return err
	}
	stored, err := ParseNotification(earlier.Push.Notification)
	if err != nil {
		return nil // it was stored by other rules
	}
	if !notification.asksForTheSame(stored) {
		return &ReusedKeyError{Push: id, Field: "idempotency_key"}
	}
	return nil
}

// newNotificationPush returns the push of a message that ParseNotification has read.
func newNotificationPush(notification Notification, message []byte, id string) Push {
	compact := jsontext.Value(bytes.Clone(message))
	_ = compact.Compact() // it is JSON
	return Push{
		ID: id, ClaimID: notificationClaimID(notification.IdempotencyKey), Notification: json.RawMessage(compact),
		Trace: tracing.New(notification.TraceID, notification.Trace.Parent, notification.Trace.State),
	}
}

// notificationClaimID names the claim of an idempotency key, whoever has sent it: the
// senders of a queue have no names.
func notificationClaimID(idempotencyKey string) string { return KeyedID("", idempotencyKey) }

// notificationKey is the idempotency key of a notification, "" of any other push.
func (p Push) notificationKey() string {
	if len(p.Notification) == 0 {
		return ""
	}
	notification, _ := ParseNotification(p.Notification) // what was stored can be read
	return notification.IdempotencyKey
}

// claimedKey is what an idempotency key stands for.
type claimedKey struct {
	id   string // of the push; "" if it is not known
	sent bool   // there is nothing to do
}

// claimKey finds the push of a key, or claims the key for a new one.
func (i *Intake) claimKey(ctx context.Context, push Push, key string) (claimedKey, error) {
	const tries = 5 // as often as others may come in between
	for range tries {
		state, claim, err := i.readKey(ctx, push, key)
		if err != nil {
			return claimedKey{}, err
		}
		id, ended := strings.CutSuffix(claim, claimEnded)
		if claim != "" && !ValidID(id) {
			return claimedKey{}, &UnusableKeyError{Key: i.channel.ClaimKey(push.ClaimID), Cause: errors.New("it names no push")}
		}
		if state == IdempotencySent {
			return claimedKey{id: id, sent: true}, nil
		}
		if claim != "" && !ended {
			return claimedKey{id: id}, nil
		}
		if ended {
			sent, err := i.sentLately(ctx, id, push.CreatedAt)
			if err != nil || sent {
				return claimedKey{id: id, sent: sent}, err
			}
		}
		fresh := NewID()
		lifetime := secondsUntilForgotten(push, i.retention.Dead, push.CreatedAt.Time())
		claimKey := i.channel.ClaimKey(push.ClaimID)
		given, err := claimReplaceScript.Run(ctx, i.redis, []string{claimKey}, claim, fresh, lifetime).Text()
		if err != nil {
			return claimedKey{}, storeError(aboutKey(claimKey, err))
		}
		if given == fresh {
			// Others only read it. If they read that the key was sent, somebody has found
			// the claim and stored its push, and that was quicker than this.
			sent, err := writeProcessing(ctx, i.redis, key, lifetime)
			if err != nil {
				return claimedKey{}, storeError(err)
			}
			return claimedKey{id: fresh, sent: sent}, nil
		}
	}
	return claimedKey{}, fmt.Errorf("%w: others use the same idempotency key at this moment", ErrNotStored)
}

// readKey reads what others see of a key, and its claim, in one round trip.
func (i *Intake) readKey(ctx context.Context, push Push, key string) (state, claim string, err error) {
	keys := []string{IdempotencyStateKey(key), i.channel.ClaimKey(push.ClaimID)}
	pipe := i.redis.Pipeline()
	stateOf, claimOf := pipe.Get(ctx, keys[0]), pipe.Get(ctx, keys[1])
	_, _ = pipe.Exec(ctx) // each has its own error
	for place, answer := range []*redis.StringCmd{stateOf, claimOf} {
		if err := answer.Err(); err != nil && !errors.Is(err, redis.Nil) {
			return "", "", storeError(aboutKey(keys[place], err))
		}
	}
	return stateOf.Val(), claimOf.Val(), nil
}

// sentLately reports whether a push that has ended was sent, and others have not been
// told yet (WriteIdempotencyStates).
func (i *Intake) sentLately(ctx context.Context, id string, now Millis) (bool, error) {
	record, err := NewRecords(i.redis, i.channel, i.retention).Get(ctx, id)
	if err != nil || record == nil {
		return false, err
	}
	return record.End == Sent && now.Time().Sub(record.EndedAt.Time()) < idempotencyKept, nil
}
