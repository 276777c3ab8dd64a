package breaker

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// States lists every state.
func States() []State { return []State{Closed, Open, HalfOpen} }

// ReadStates returns the states of breakers by their hashes (Keys), in their order and in
// one round trip.
func ReadStates(ctx context.Context, client redis.UniversalClient, hashes []string) ([]State, error) {
	pipe := client.Pipeline()
	reading := make([]*redis.StringCmd, len(hashes))
	for place, hash := range hashes {
		reading[place] = pipe.HGet(ctx, hash, "state")
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	states := make([]State, len(hashes))
	for place, read := range reading {
		state, err := read.Result()
		switch {
		case errors.Is(err, redis.Nil):
			states[place] = Closed // nobody has called yet
		case err != nil:
			return nil, fmt.Errorf("read the circuit breaker %s: %w", hashes[place], err)
		default:
			states[place] = State(state)
		}
	}
	return states, nil
}
