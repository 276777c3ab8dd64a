package limiter

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// Override makes all processes start no more often than once in delay (rounded
// up to whole microseconds), for as long as the second duration says (whole
// milliseconds). It can only slow down: of all delays the longest wins. A
// process hears of it with its next reservation, and then uses the few slots
// that it holds already; it replaces an earlier override.
func Override(ctx context.Context, client redis.UniversalClient, keys Keys, delay, lasts time.Duration) error {
	micros := (delay + time.Microsecond - 1) / time.Microsecond
	if err := client.Set(ctx, keys.Override, int64(micros), lasts).Err(); err != nil {
		return fmt.Errorf("override the pace: %w", err)
	}
	return nil
}

// ResetOverride ends an override, and reports whether there was one. Processes
// that have no slot to ask for hear of it within five seconds; then the pace
// starts at 80 % and gains 1 % a second.
func ResetOverride(ctx context.Context, client redis.UniversalClient, keys Keys) (bool, error) {
	deleted, err := client.Del(ctx, keys.Override).Result()
	if err != nil {
		return false, fmt.Errorf("reset the pace: %w", err)
	}
	return deleted > 0, nil
}
