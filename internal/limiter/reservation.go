package limiter

import (
	"context"
	_ "embed" // the scripts
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"pushq/internal/keytype"
)

var (
	//go:embed scripts/state.lua
	stateSource string
	//go:embed scripts/reserve.lua
	reserveSource string
	//go:embed scripts/throttle.lua
	throttleSource string

	reserveScript  = redis.NewScript(keytype.Source + stateSource + reserveSource)
	throttleScript = redis.NewScript(keytype.Source + stateSource + throttleSource)
)

// A reservation is the reply of Redis to a call for slots.
type reservation struct {
	wanted   int
	slots    []time.Time // on Redis' clock
	brake    time.Duration
	delay    time.Duration // in force
	override time.Duration // an operator's, 0 if there is none
	now      time.Time     // on Redis' clock, when the script ran
	sent     time.Time     // on this process' clock
	received time.Time
	err      error
}

func reserveSlots(ctx context.Context, l *Limiter, wanted int, ahead time.Duration) reservation {
	r := reservation{wanted: wanted, sent: time.Now()}
	reply, err := reserveScript.Run(ctx, l.redis, []string{l.keys.Pace, l.keys.Brake, l.keys.Override},
		wanted, l.delay.Microseconds(), ahead.Microseconds()).Int64Slice()
	r.received = time.Now()
	if err != nil {
		r.err = fmt.Errorf("reserve %d slots: %w", wanted, err)
		return r
	}
	if len(reply) < 4 {
		r.err = fmt.Errorf("reserve %d slots: unexpected reply %v", wanted, reply)
		return r
	}
	r.now = time.UnixMicro(reply[0])
	r.brake = time.Duration(reply[1]) * time.Millisecond
	r.delay = time.Duration(reply[2]) * time.Microsecond
	r.override = time.Duration(reply[3]) * time.Microsecond
	for _, start := range reply[4:] {
		r.slots = append(r.slots, time.UnixMicro(start))
	}
	return r
}
