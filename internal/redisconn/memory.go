package redisconn

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/redis/go-redis/v9"
)

// ErrUntold means that Redis answers, but does not tell what it was asked.
var ErrUntold = errors.New("redis does not tell")

// Memory of a server, in bytes.
type Memory struct {
	// Used is what counts against Max: buffers for replicas and the append-only
	// file are left out (evict.c: freeMemoryGetNotCountedMemory).
	Used uint64
	Max  uint64 // 0 for no limit
}

// ReadMemory returns the memory of the server, or of the fullest master of a
// cluster. The error is ErrUntold if this user may not run INFO, or it is not
// known.
func ReadMemory(ctx context.Context, client redis.UniversalClient) (Memory, error) {
	cluster, ok := client.(*redis.ClusterClient)
	if !ok {
		return readMemory(ctx, client)
	}
	var mutex sync.Mutex
	var fullest Memory
	err := cluster.ForEachMaster(ctx, func(ctx context.Context, master *redis.Client) error {
		memory, err := readMemory(ctx, master)
		mutex.Lock()
		defer mutex.Unlock()
		if err == nil && memory.Share() >= fullest.Share() {
			fullest = memory
		}
		return err
	})
	return fullest, err
}

// Share is how much of Max is used; 0 without a limit.
func (m Memory) Share() float64 {
	if m.Max == 0 {
		return 0
	}
	return float64(m.Used) / float64(m.Max)
}

func readMemory(ctx context.Context, client redis.UniversalClient) (Memory, error) {
	text, err := client.Info(ctx, "memory").Result()
	var refusal redis.Error
	if errors.As(err, &refusal) {
		return Memory{}, fmt.Errorf("%w its memory: %w", ErrUntold, err)
	}
	if err != nil {
		return Memory{}, fmt.Errorf("read the memory of redis: %w", err)
	}
	info := parseInfo(text)
	used, err := strconv.ParseUint(info["used_memory"], 10, 64)
	if err != nil {
		return Memory{}, fmt.Errorf("%w its memory", ErrUntold)
	}
	limit, _ := strconv.ParseUint(info["maxmemory"], 10, 64)
	uncounted, _ := strconv.ParseUint(info["mem_not_counted_for_evict"], 10, 64)
	return Memory{Used: used - min(used, uncounted), Max: limit}, nil
}
