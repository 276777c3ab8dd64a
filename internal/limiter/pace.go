package limiter

import (
	"context"
	_ "embed" // the script
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"pushq/internal/keytype"
)

var (
	//go:embed scripts/pace.lua
	paceSource string

	paceScript = redis.NewScript(keytype.Source + stateSource + paceSource)
)

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
	// BrakedSince is when that began, on Redis' clock, and BrakedBy the answer that asked for
	// it, if Redis tells.
	BrakedSince time.Time
	BrakedBy    string
}

// ReadPace reads the pace without announcing anything.
func ReadPace(ctx context.Context, client redis.UniversalClient, keys Keys) (Pace, error) {
	reply, err := paceScript.Run(ctx, client, []string{keys.Pace, keys.Brake, keys.Override}).Slice()
	if err != nil {
		return Pace{}, fmt.Errorf("read the pace: %w", err)
	}
	if len(reply) != 6 {
		return Pace{}, fmt.Errorf("read the pace: unexpected reply %v", reply)
	}
	var numbers [5]int64
	for place := range numbers {
		numbers[place], _ = reply[place].(int64)
	}
	pace := Pace{
		Announced:     time.Duration(numbers[0]) * time.Microsecond,
		Override:      time.Duration(numbers[1]) * time.Microsecond,
		OverrideLasts: time.Duration(numbers[2]) * time.Millisecond,
		Speed:         float64(numbers[3]) / 1e6,
		Brake:         time.Duration(numbers[4]) * time.Millisecond,
	}
	brake, _ := reply[5].(string)
	since, answer, _ := strings.Cut(brake, " ")
	if millis, err := strconv.ParseInt(since, 10, 64); err == nil && answer != "" {
		pace.BrakedSince, pace.BrakedBy = time.UnixMilli(millis), answer
	}
	return pace, nil
}

// InForce is the time between two starts, over all processes, apart from the
// brake. configured is for the case that no process has announced its own.
func (p Pace) InForce(configured time.Duration) time.Duration {
	if p.Announced > 0 {
		configured = p.Announced
	}
	return time.Duration(float64(max(p.Override, configured)) / p.Speed)
}
