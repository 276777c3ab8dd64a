package tasks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// What others read under an idempotency key of a notification. Only "sent" decides
// anything here: a message whose key has it is not sent again, whoever has written it.
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

// WriteIdempotencyStates tells others of pushes of channel that have ended. It may be
// repeated.
func WriteIdempotencyStates(ctx context.Context, client redis.UniversalClient, channel Channel, ended []Record) error {
	for _, record := range ended {
		notification, err := ParseNotification(record.Push.Notification)
		if err != nil || record.End == "" {
			continue // it has no key, or somebody has run it again since
		}
		claim, err := client.Get(ctx, channel.ClaimKey(record.Push.claimID())).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			return fmt.Errorf("read the claim of push %s: %w", record.Push.ID, err)
		}
		if claim != "" && claim != record.Push.ID+claimEnded {
			continue // the key stands for another push by now, or for this one again
		}
		state := IdempotencyFailed
		if record.End == Sent {
			state = IdempotencySent
		}
		if err := client.Set(ctx, IdempotencyStateKey(notification.IdempotencyKey), state, idempotencyKept).Err(); err != nil {
			return fmt.Errorf("write the idempotency state of push %s: %w", record.Push.ID, err)
		}
	}
	return nil
}
