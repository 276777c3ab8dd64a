package tasks

import (
	"context"
	_ "embed" // the script
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

var (
	//go:embed scripts/idempotency_state.lua
	idempotencyStateSource string

	idempotencyStateScript = redis.NewScript(idempotencyStateSource)
)

// What others read under an idempotency key of a notification. Only "sent" decides
// anything here: a message whose key has it is not sent again, whoever has written it,
// and nothing is written over it.
const (
	IdempotencyProcessing = "processing"
	IdempotencySent       = "sent"
	IdempotencyFailed     = "failed"
)

// idempotencyKept is how long sent and failed are kept.
const idempotencyKept = 86_400 * time.Second

// IdempotencyStateKey is where others read the state of a notification's idempotency
// key. It has no hash tag: they have always known it by this name.
func IdempotencyStateKey(idempotencyKey string) string { return "idempotency:" + idempotencyKey }

// writeProcessing tells others that the push of a key is under way, until it ends, or for
// so many seconds if nobody tells them of its end. It reports whether they read there
// that it was sent.
func writeProcessing(ctx context.Context, client redis.UniversalClient, idempotencyKey string, lifetime int64) (sent bool, err error) {
	told, err := idempotencyStateScript.Run(ctx, client, []string{IdempotencyStateKey(idempotencyKey)}, IdempotencyProcessing, lifetime).Text()
	return told == IdempotencySent, err
}

// WriteIdempotencyStates tells others of pushes of channel that have ended, in any order.
// It may be repeated.
func WriteIdempotencyStates(ctx context.Context, client redis.UniversalClient, channel Channel, ended []Record) error {
	type telling struct {
		record Record
		key    string
		claim  *redis.StringCmd
	}
	var tellings []telling
	claims := client.Pipeline()
	for _, record := range ended {
		notification, err := ParseNotification(record.Push.Notification)
		if err != nil || record.End == "" {
			continue // it has no key, or no end
		}
		claim := claims.Get(ctx, channel.ClaimKey(record.Push.claimID()))
		tellings = append(tellings, telling{record: record, key: notification.IdempotencyKey, claim: claim})
	}
	_, _ = claims.Exec(ctx) // each has its own error
	states := client.Pipeline()
	for _, one := range tellings {
		id := one.record.Push.ID
		claim, err := one.claim.Result()
		// A claim of another type stands for no other push, and must not hold up the rest.
		if err != nil && !errors.Is(err, redis.Nil) && !isWrongType(err) {
			return fmt.Errorf("read the claim of push %s: %w", id, err)
		}
		if claim != "" && claim != id+claimEnded {
			continue // the key stands for another push by now, or for this one again
		}
		state := IdempotencyFailed
		if one.record.End == Sent {
			state = IdempotencySent
		}
		// With its source: a pipeline cannot ask again where the script is not known.
		idempotencyStateScript.Eval(ctx, states, []string{IdempotencyStateKey(one.key)}, state, seconds(idempotencyKept))
	}
	if _, err := states.Exec(ctx); err != nil {
		return fmt.Errorf("write idempotency states: %w", err)
	}
	return nil
}
