package tasks

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// processesKey lists the running processes, those that only accept pushes included, by
// the millisecond at which each was last heard of.
var processesKey = Swrve.key("processes")

const (
	// processHeard is after how long without a word a process is taken to be gone. They
	// announce themselves every five seconds.
	processHeard = 30 * time.Second
	// processesForgotten is when the list of an installation that has stopped goes away.
	processesForgotten = time.Hour
)

// Announce says that the process of that name runs. now is on the clock that all
// processes share.
func Announce(ctx context.Context, client redis.UniversalClient, name string, now time.Time) error {
	_, err := client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.ZAdd(ctx, processesKey, redis.Z{Score: float64(now.UnixMilli()), Member: name})
		pipe.ZRemRangeByScore(ctx, processesKey, "-inf", "("+strconv.FormatInt(now.Add(-processHeard).UnixMilli(), 10))
		pipe.Expire(ctx, processesKey, processesForgotten)
		return nil
	})
	if err != nil {
		return fmt.Errorf("announce this process: %w", err)
	}
	return nil
}

// Leave says that the process of that name has stopped.
func Leave(ctx context.Context, client redis.UniversalClient, name string) error {
	if err := client.ZRem(ctx, processesKey, name).Err(); err != nil {
		return fmt.Errorf("announce the end of this process: %w", err)
	}
	return nil
}

// Processes returns the names of those that have been heard of in the last half minute.
// now is on the clock that all processes share.
func Processes(ctx context.Context, client redis.UniversalClient, now time.Time) ([]string, error) {
	names, err := client.ZRangeByScore(ctx, processesKey, &redis.ZRangeBy{
		Min: strconv.FormatInt(now.Add(-processHeard).UnixMilli(), 10), Max: "+inf",
	}).Result()
	if err != nil {
		return nil, fmt.Errorf("list the processes: %w: %w", ErrUnreadable, err)
	}
	slices.Sort(names)
	return names, nil
}

// IsUnused reports whether no pushq has ever used this Redis: each registers its queues
// at its start.
func IsUnused(ctx context.Context, client redis.UniversalClient) (bool, error) {
	registered, err := RegisteredQueues(ctx, client)
	if err != nil {
		return false, err
	}
	for _, channel := range Channels() {
		if slices.ContainsFunc(channel.Queues(), func(queue string) bool { return slices.Contains(registered, queue) }) {
			return false, nil
		}
	}
	return true, nil
}
