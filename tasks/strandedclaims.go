package tasks

import (
	"context"
	_ "embed" // the script
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

var (
	//go:embed scripts/claim_release.lua
	claimReleaseSource string

	claimReleaseScript = redis.NewScript(claimReleaseSource)
)

// claimedPush is the push that a claim is on: a claim with the form of an id names it
// (notify.go), and of any other the push has its name.
func claimedPush(name, claim string) string {
	if ValidID(claim) {
		return claim
	}
	return name
}

// claimCheck releases a claim only if nobody has touched it for longer than an
// enqueue takes, so no caller is about to store its push; there is neither a
// task nor a record, so nothing of the push has been sent or will be.
func (d *Doctor) claimCheck() check {
	return check{
		finding: Finding{
			Fault: "stranded-claim",
			Meaning: "idempotency keys whose push was never stored (the process died in between, or an operator deleted the task): " +
				"the same content is accepted again with its key, other content is refused with 409 (a notification is accepted in any case)",
			Repair: fixCommand,
		},
		look: d.findStrandedClaims,
		judge: func(ctx context.Context, one suspect, fix bool) (verdict, error) {
			id := claimedPush(one.id, one.seen)
			if stored, err := d.stored(ctx, id); err != nil || stored {
				return well, err
			}
			// The first look has touched it, nobody may have since.
			idle := int64(max(d.Pause-time.Second, 0) / time.Second)
			return asVerdict(claimReleaseScript.Run(ctx, d.redis, []string{d.channel.ClaimKey(one.id), d.channel.RecordKey(id)},
				one.seen, idle, mode(fix)), "release the claim of push "+id)
		},
	}
}

func (d *Doctor) findStrandedClaims(ctx context.Context) (suspects []suspect, err error) {
	prefix := d.channel.ClaimKey("")
	err = d.scan(ctx, prefix, func(keys []string) error {
		pipe := d.redis.Pipeline()
		idles := make([]*redis.DurationCmd, len(keys))
		claims := make([]*redis.StringCmd, len(keys))
		for place, key := range keys {
			idles[place] = pipe.ObjectIdleTime(ctx, key) // before GET, which ends it
			claims[place] = pipe.Get(ctx, key)
		}
		_, _ = pipe.Exec(ctx) // each has its own error
		for place, key := range keys {
			for _, err := range []error{idles[place].Err(), claims[place].Err()} {
				if err != nil && !errors.Is(err, redis.Nil) && !isWrongType(err) {
					return fmt.Errorf("read claims: %w: %w", ErrUnreadable, err)
				}
			}
			claim := claims[place].Val()
			if claim == "" || strings.HasSuffix(claim, claimEnded) || idles[place].Val() < d.ClaimIdle {
				continue
			}
			name := strings.TrimPrefix(key, prefix)
			stored, err := d.stored(ctx, claimedPush(name, claim))
			if err != nil {
				return err
			}
			if !stored {
				suspects = append(suspects, suspect{id: name, seen: claim})
			}
		}
		return nil
	})
	return suspects, err
}

// stored reports whether there is a task or a record of the push.
func (d *Doctor) stored(ctx context.Context, id string) (bool, error) {
	keys := []string{d.channel.RecordKey(id)}
	for _, queue := range d.channel.Queues() {
		keys = append(keys, asynqTaskKey(queue, id))
	}
	for _, key := range keys {
		found, err := d.redis.Exists(ctx, key).Result()
		if err != nil {
			return false, fmt.Errorf("look for push %s: %w: %w", id, ErrUnreadable, err)
		}
		if found > 0 {
			return true, nil
		}
	}
	return false, nil
}
