package follow

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// A Backlog is what is in a stream, what a follower has in hand included.
type Backlog struct {
	Entries int64
	// Oldest is how long the first entry has been there, 0 if there is none.
	Oldest time.Duration
}

// ReadBacklogs returns the backlogs of streams, in their order and in one round trip. now
// is on Redis' clock.
func ReadBacklogs(ctx context.Context, client redis.UniversalClient, streams []string, now time.Time) ([]Backlog, error) {
	pipe := client.Pipeline()
	lengths := make([]*redis.IntCmd, len(streams))
	firsts := make([]*redis.XMessageSliceCmd, len(streams))
	for place, stream := range streams {
		lengths[place] = pipe.XLen(ctx, stream)
		firsts[place] = pipe.XRangeN(ctx, stream, "-", "+", 1)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, fmt.Errorf("read the backlogs of streams: %w", err)
	}
	backlogs := make([]Backlog, len(streams))
	for place := range streams {
		backlogs[place].Entries = lengths[place].Val()
		for _, first := range firsts[place].Val() {
			added, err := addedAt(first.ID)
			if err != nil {
				return nil, fmt.Errorf("read the backlog of stream %s: %w", streams[place], err)
			}
			backlogs[place].Oldest = max(now.Sub(added), 0)
		}
	}
	return backlogs, nil
}

// addedAt reads the time from the id that Redis has given an entry.
func addedAt(id string) (time.Time, error) {
	text, _, _ := strings.Cut(id, "-")
	milliseconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("the id of an entry: %w", err)
	}
	return time.UnixMilli(milliseconds), nil
}
