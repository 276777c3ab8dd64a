package tasks

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A FollowedStream is the stream of a follower (Followers), and what a doctor says of it.
type FollowedStream struct {
	Key string
	// Does is what the follower does with the entries, such as "write the history",
	// and Needs what it needs for that: "a worker with history.postgresUrl, and PostgreSQL".
	Does, Needs string
}

// examineStreams finds streams whose entries stay. Nothing of them is lost, and nothing
// is mended here: only their follower knows what is to be done with them.
func (d *Doctor) examineStreams(ctx context.Context) (findings []Finding, err error) {
	for _, stream := range d.Streams {
		waiting, age, err := d.backlog(ctx, stream.Key)
		if err != nil {
			return findings, err
		}
		if waiting == 0 || age < d.Unread {
			continue
		}
		findings = append(findings, Finding{
			Fault: "unread-stream", Count: waiting,
			Meaning: fmt.Sprintf("%d entries wait in %s, the oldest for %s: nobody reads them to %s, or cannot. "+
				"None is lost, but they take memory of Redis until they are dealt with", waiting, stream.Key, age.Round(time.Second), stream.Does),
			Repair: fmt.Sprintf("it needs %s: start what is missing, and look at the worker's log for \"cannot deal with the entries of a stream\". "+
				"If it is not wanted any more, and no process is configured for it: redis-cli DEL '%s'", stream.Needs, stream.Key),
		})
	}
	return findings, nil
}

// backlog is how many entries a stream has, and how old the first one is.
func (d *Doctor) backlog(ctx context.Context, key string) (waiting int, age time.Duration, err error) {
	// A user of Redis without a follower needs no rights on streams.
	exists, err := d.redis.Exists(ctx, key).Result()
	if err != nil {
		return 0, 0, fmt.Errorf("look for stream %s: %w: %w", key, ErrUnreadable, err)
	}
	if exists == 0 {
		return 0, 0, nil
	}
	length, err := d.redis.XLen(ctx, key).Result()
	if err != nil {
		return 0, 0, fmt.Errorf("read the length of stream %s: %w: %w", key, ErrUnreadable, err)
	}
	first, err := d.redis.XRangeN(ctx, key, "-", "+", 1).Result()
	if err != nil {
		return 0, 0, fmt.Errorf("read stream %s: %w: %w", key, ErrUnreadable, err)
	}
	if len(first) == 0 {
		return 0, 0, nil
	}
	now, err := d.redis.Time(ctx).Result()
	if err != nil {
		return 0, 0, fmt.Errorf("read the time of redis: %w: %w", ErrUnreadable, err)
	}
	// An entry's name begins with its time on Redis' clock.
	milliseconds, _, _ := strings.Cut(first[0].ID, "-")
	added, err := strconv.ParseInt(milliseconds, 10, 64)
	if err != nil {
		return 0, 0, fmt.Errorf("read stream %s: %w", key, err)
	}
	return int(length), now.Sub(time.UnixMilli(added)), nil
}
