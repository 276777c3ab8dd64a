package tasks

import (
	"context"
	"fmt"
	"time"

	"pushq/internal/follow"
)

// A FollowedStream is the stream of a follower (Followers), and what a doctor says of it.
type FollowedStream struct {
	Follower string
	// Does is what the follower does with the entries, such as "write the history",
	// and Needs what it needs for that: "a worker with history.postgresUrl, and PostgreSQL".
	Does, Needs string
}

// examineStreams finds streams whose entries stay. Nothing is mended here: only their
// follower knows what is to be done with them.
func (d *Doctor) examineStreams(ctx context.Context) (findings []Finding, err error) {
	for _, stream := range d.Streams {
		key := d.channel.FollowKey(stream.Follower)
		aside, err := d.examineAside(ctx, stream)
		findings = append(findings, aside...)
		if err != nil {
			return findings, err
		}
		backlog, err := d.backlog(ctx, key)
		if err != nil {
			return findings, err
		}
		if backlog.Entries == 0 || backlog.Oldest < d.Unread {
			continue
		}
		findings = append(findings, Finding{
			Fault: "unread-stream", Count: int(backlog.Entries),
			Meaning: fmt.Sprintf("%d entries wait in %s, the oldest for %s: nobody reads them to %s, or cannot. "+
				"None is lost, but they take memory of Redis until they are dealt with", backlog.Entries, key, backlog.Oldest.Round(time.Second), stream.Does),
			Repair: fmt.Sprintf("it needs %s: start what is missing, and look at the worker's log for \"cannot deal with the entries of a stream\". "+
				"If it is not wanted any more, and no process is configured for it: redis-cli HDEL '%s' %s, and then redis-cli DEL '%s'",
				stream.Needs, d.channel.FollowersKey(), stream.Follower, key),
		})
	}
	return findings, nil
}

// examineAside finds entries that no follower can deal with.
func (d *Doctor) examineAside(ctx context.Context, stream FollowedStream) ([]Finding, error) {
	key := follow.AsideKey(d.channel.FollowKey(stream.Follower))
	backlog, err := d.backlog(ctx, key)
	if err != nil || backlog.Entries == 0 {
		return nil, err
	}
	return []Finding{{
		Fault: "aside-stream", Count: int(backlog.Entries),
		Meaning: fmt.Sprintf("%d entries are in %s, the oldest for %s: a bug of pushq made a worker panic each time that it was to %s, so it has put them aside, "+
			"and nobody deals with them. The newest %d or so are kept", backlog.Entries, key, backlog.Oldest.Round(time.Second), stream.Does, follow.MaxAside),
		Repair: fmt.Sprintf("read them with redis-cli XRANGE '%s' - + COUNT 10, and the panics in the workers' logs: \"an entry of a stream is put aside\". "+
			"Report those, do by hand what has to be done, then: redis-cli DEL '%s'", key, key),
	}}, nil
}

// backlog is what waits in a stream.
func (d *Doctor) backlog(ctx context.Context, key string) (follow.Backlog, error) {
	// A user of Redis without a follower needs no rights on streams.
	exists, err := d.redis.Exists(ctx, key).Result()
	if err != nil {
		return follow.Backlog{}, fmt.Errorf("look for stream %s: %w: %w", key, ErrUnreadable, err)
	}
	if exists == 0 {
		return follow.Backlog{}, nil
	}
	now, err := d.redis.Time(ctx).Result()
	if err != nil {
		return follow.Backlog{}, fmt.Errorf("read the time of redis: %w: %w", ErrUnreadable, err)
	}
	backlogs, err := follow.ReadBacklogs(ctx, d.redis, []string{key}, now)
	if err != nil {
		return follow.Backlog{}, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	return backlogs[0], nil
}
