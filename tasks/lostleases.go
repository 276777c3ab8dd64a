package tasks

import (
	"context"
	_ "embed" // the script
	"fmt"
	"log/slog"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"google.golang.org/protobuf/encoding/protowire"

	"pushq/internal/keytype"
)

var (
	//go:embed scripts/lost_leases.lua
	lostLeasesSource string

	lostLeasesScript = redis.NewScript(keytype.Source + lostLeasesSource)
)

const (
	// takeBackDelay is how long a push waits after its lease was lost before
	// it is handed out again. Perhaps its worker lives: one that only Redis was
	// away from needs about a second to write the outcome that it has kept
	// meanwhile, and one that stood still for 45 s finds its answers then. The
	// shortest way here, 24 s of lease and leaseGrace, leaves 17 s to that.
	takeBackDelay = 18 * time.Second

	// leaseGrace is how long a lease must have run out before its task is taken
	// back. asynq's worker writes nothing for a task after the end of its lease
	// (processor.go: retry, markAsComplete), by its own clock, which may be 2 s
	// behind that of Redis; the score is rounded down by up to a second; the rest
	// is for what it has written just before.
	leaseGrace = 5 * time.Second

	lostLeasesPage = 100
)

// takeBack gives the pushes of workers that have died, or were cut off for as
// long as a lease lasts (30 s), to others: they get RETRY after takeBackDelay.
// asynq v0.26.0 has no setting for that, and itself looks only every 60 s for
// leases that ended 30 s ago (recoverer.go). It counts nothing, neither for
// asynq nor in the record. Should the worker live, both runs meet in Begin,
// which lets one of them send. It returns the number of pushes.
func (c *Caretaker) takeBack(ctx context.Context, queue string) (taken int, err error) {
	keys := []string{
		asynqLeaseKey(queue), asynqStateKey(queue, asynq.TaskStateActive), asynqStateKey(queue, asynq.TaskStateRetry),
	}
	for passed := 0; ; {
		reply, err := lostLeasesScript.Run(ctx, c.redis, keys,
			int(leaseGrace.Seconds()), int(takeBackDelay.Seconds()), asynqTaskKey(queue, ""), leaseLost(time.Now()),
			passed, lostLeasesPage).Int64Slice()
		if err != nil {
			return taken, fmt.Errorf("take the pushes of dead workers back into queue %s: %w", queue, err)
		}
		seen, count := int(reply[0]), int(reply[1])
		if count > 0 {
			c.log.Warn("took pushes back from a worker that has died or was cut off",
				slog.String("queue", queue), slog.Int("count", count))
		}
		taken += count
		passed += seen - count
		if seen < lostLeasesPage {
			return taken, nil
		}
	}
}

// leaseLost returns what an asynq message has to end in for its last error to be
// that of a lost lease, by which handlers tell a crash from an operator's
// requeue. The message is a protobuf (asynq v0.26.0, internal/proto:
// asynq.proto), of which the last value of a field is valid:
// https://protobuf.dev/programming-guides/encoding/#last-one-wins
func leaseLost(at time.Time) []byte {
	const errorMsg, lastFailedAt protowire.Number = 7, 11
	field := protowire.AppendTag(nil, errorMsg, protowire.BytesType)
	field = protowire.AppendString(field, asynq.ErrLeaseExpired.Error())
	field = protowire.AppendTag(field, lastFailedAt, protowire.VarintType)
	return protowire.AppendVarint(field, uint64(at.Unix()))
}
