package breaker

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// States lists every state.
func States() []State { return []State{Closed, Open, HalfOpen} }

// A Status is what others are told of a breaker.
type Status struct {
	State State
	// Refused means that the breaker was opened because the service takes no call of ours,
	// and that it has taken none since.
	Refused bool
	// Opened is when it was opened last, or a call of a half open one failed; zero if never.
	Opened time.Time
}

// ReadStatuses returns those of breakers by their hashes (Keys), in their order and in
// one round trip.
func ReadStatuses(ctx context.Context, client redis.UniversalClient, hashes ...string) ([]Status, error) {
	pipe := client.Pipeline()
	reading := make([]*redis.SliceCmd, len(hashes))
	for place, hash := range hashes {
		reading[place] = pipe.HMGet(ctx, hash, "state", "refused", "opened")
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	statuses := make([]Status, len(hashes))
	for place, read := range reading {
		fields, err := read.Result()
		if err != nil {
			return nil, fmt.Errorf("read the circuit breaker %s: %w", hashes[place], err)
		}
		statuses[place].State = Closed // if nobody has called yet
		if state, called := fields[0].(string); called {
			statuses[place].State = State(state)
		}
		statuses[place].Refused = fields[1] == "1"
		opened, _ := fields[2].(string)
		if millis, err := strconv.ParseInt(opened, 10, 64); err == nil && millis > 0 {
			statuses[place].Opened = time.UnixMilli(millis)
		}
	}
	return statuses, nil
}
