package breaker

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"time"
)

// copyTimeout is short: somebody waits to make a call, or to go on after one.
const copyTimeout = time.Second

// copy writes the copies for others. If Redis does not take them, they are written again
// when this process next hears of the breaker.
func (b *Breaker) copy(ctx context.Context, state State, failures int64) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), copyTimeout)
	defer cancel()
	if err := b.writeCopies(ctx, state, failures); err != nil {
		b.Log.Warn("the copies of a circuit breaker are out of date", slog.String("service", b.Service), slog.Any("error", err))
		b.mutex.Lock()
		defer b.mutex.Unlock()
		b.copied = false
	}
}

// writeCopies looks afterwards whether it has come too late: whoever writes last has
// then seen what others have changed meanwhile.
func (b *Breaker) writeCopies(ctx context.Context, state State, failures int64) error {
	for {
		pipe := b.redis.Pipeline()
		pipe.Set(ctx, b.StateCopy, string(state), 0)
		pipe.Set(ctx, b.FailuresCopy, failures, 0)
		if _, err := pipe.Exec(ctx); err != nil {
			return fmt.Errorf("circuit breaker of %s: %w", b.Service, err)
		}
		stateNow, failuresNow, err := b.read(ctx)
		if err != nil {
			return err
		}
		if stateNow == state && failuresNow == failures {
			return nil
		}
		state, failures = stateNow, failuresNow
	}
}

// Read returns the state and the failures in a row, for health checks and metrics. An
// open breaker is shown as open until somebody asks for the call that comes next.
func (b *Breaker) Read(ctx context.Context) (State, int, error) {
	state, failures, err := b.read(ctx)
	return state, int(failures), err
}

func (b *Breaker) read(ctx context.Context) (state State, failures int64, err error) {
	fields, err := b.redis.HMGet(ctx, b.Hash, "state", "failures").Result()
	if err != nil {
		return "", 0, fmt.Errorf("circuit breaker of %s: %w", b.Service, err)
	}
	stored, known := fields[0].(string)
	if !known {
		return Closed, 0, nil
	}
	text, _ := fields[1].(string)
	failures, err = strconv.ParseInt(text, 10, 64)
	if err != nil {
		return "", 0, fmt.Errorf("circuit breaker of %s: failures: %w", b.Service, err)
	}
	return State(stored), failures, nil
}
