package limiter

import (
	"context"
	_ "embed" // the script
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

var (
	//go:embed scripts/pace.lua
	paceSource string

	paceScript = redis.NewScript(stateSource + paceSource)
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

// A Pace is what the limiters of all processes go by.
type Pace struct {
	// Announced is the longest delay that a process has been configured with
	// in the last 15 s; 0 if no process is running.
	Announced time.Duration
	// Override is what an operator wants, for another OverrideLasts; 0 if
	// there is none.
	Override, OverrideLasts time.Duration
	// Speed is the share of the pace in force after a 429 or an override.
	Speed float64
	// Brake is how long nobody may start because the provider asked for it.
	Brake time.Duration
}

// ReadPace reads the pace without announcing anything.
func ReadPace(ctx context.Context, client redis.UniversalClient, keys Keys) (Pace, error) {
	reply, err := paceScript.Run(ctx, client, []string{keys.Pace, keys.Brake, keys.Override}).Int64Slice()
	if err != nil {
		return Pace{}, fmt.Errorf("read the pace: %w", err)
	}
	if len(reply) != 5 {
		return Pace{}, fmt.Errorf("read the pace: unexpected reply %v", reply)
	}
	return Pace{
		Announced:     time.Duration(reply[0]) * time.Microsecond,
		Override:      time.Duration(reply[1]) * time.Microsecond,
		OverrideLasts: time.Duration(reply[2]) * time.Millisecond,
		Speed:         float64(reply[3]) / 1e6,
		Brake:         time.Duration(reply[4]) * time.Millisecond,
	}, nil
}
