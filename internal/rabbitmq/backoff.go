package rabbitmq

import (
	"context"
	"time"

	"pushq/scheduler"
)

// backoff is 100 ms to 30 s between one try and the next.
var backoff = scheduler.Exponential{First: 100 * time.Millisecond, Cap: 20 * time.Second, Jitter: 0.5}

// pause waits after so many failures in a row. It is false, and at once, if ctx ends.
func pause(ctx context.Context, failures int) bool {
	timer := time.NewTimer(time.Until(backoff.After(failures, time.Now())))
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
