package limiter

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// recovery is what the speed gains a second, as reserve.lua has it.
const recovery = 0.01

// Slowdown reads what 429s have done to the pace of all processes: the share of
// the speed that is left, 1 for all of it, and how long nobody may start.
func (l *Limiter) Slowdown(ctx context.Context) (speed float64, brake time.Duration, err error) {
	var fields *redis.SliceCmd
	var now *redis.TimeCmd
	var left *redis.DurationCmd
	if _, err := l.redis.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		fields = pipe.HMGet(ctx, l.paceKey, "speed", "speed_at")
		now = pipe.Time(ctx)
		left = pipe.PTTL(ctx, l.brakeKey)
		return nil
	}); err != nil {
		return 0, 0, fmt.Errorf("read the pace: %w", err)
	}
	stored, _ := fields.Val()[0].(string)
	speed, err = strconv.ParseFloat(stored, 64)
	if err != nil {
		return 1, max(left.Val(), 0), nil // no 429 lately
	}
	storedAt, _ := fields.Val()[1].(string)
	micros, _ := strconv.ParseInt(storedAt, 10, 64)
	sinceThen := max(now.Val().Sub(time.UnixMicro(micros)), 0)
	return min(speed+recovery*sinceThen.Seconds(), 1), max(left.Val(), 0), nil
}
