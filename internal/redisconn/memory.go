package redisconn

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// MemoryUsed returns the share of maxmemory that the server uses, as Redis
// counts it when it refuses writes. It is 0 without a limit, and if Redis does
// not let this user run INFO.
func MemoryUsed(ctx context.Context, client redis.UniversalClient) (float64, error) {
	text, err := client.Info(ctx, "memory").Result()
	if redis.HasErrorPrefix(err, "NOPERM") {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read the memory of redis: %w", err)
	}
	return memoryUsed(parseInfo(text)), nil
}

func memoryUsed(info map[string]string) float64 {
	number := func(name string) float64 {
		value, _ := strconv.ParseFloat(info[name], 64) // 0 if it is not told
		return value
	}
	limit := number("maxmemory")
	if limit <= 0 {
		return 0
	}
	// Buffers for replicas and the append-only file are left out (evict.c:
	// freeMemoryGetNotCountedMemory).
	return (number("used_memory") - number("mem_not_counted_for_evict")) / limit
}
