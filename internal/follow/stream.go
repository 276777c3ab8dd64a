package follow

import (
	"context"
	_ "embed" // the script
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

var (
	//go:embed scripts/forget.lua
	forgetSource string

	forgetScript = redis.NewScript(forgetSource)
)

// next returns the entries that are to be dealt with next, or none after a while. First
// come those that this follower holds: it may not know of them, because a reply was lost
// or because they were another's.
func (f *Follower) next(ctx context.Context) ([]Entry, error) {
	if now := time.Now(); !now.Before(f.lookAt) {
		if err := f.takeOver(ctx); err != nil {
			return nil, err
		}
		f.lookAt = now.Add(f.silence / 4)
	}
	const held, others = "0", ">"
	messages, err := f.read(ctx, held)
	if err == nil && len(messages) == 0 {
		messages, err = f.read(ctx, others)
	}
	if err != nil {
		f.lookAt = time.Time{} // the group may have to be created again
		return nil, err
	}
	return f.entries(ctx, messages)
}

func (f *Follower) read(ctx context.Context, after string) ([]redis.XMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, maxBlock+readTimeout)
	defer cancel()
	streams, err := f.redis.XReadGroup(ctx, &redis.XReadGroupArgs{
		Group: f.Group, Consumer: f.consumer, Streams: []string{f.Stream, after},
		Count: int64(f.Batch), Block: maxBlock,
	}).Result()
	switch {
	case errors.Is(err, redis.Nil) || err == nil && len(streams) == 0:
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read stream %s: %w", f.Stream, err)
	}
	return streams[0].Messages, nil
}

// entries leaves out what somebody has removed from the stream while it was held.
func (f *Follower) entries(ctx context.Context, messages []redis.XMessage) ([]Entry, error) {
	var entries, removed []Entry
	for _, message := range messages {
		id, _ := message.Values["id"].(string)
		record, _ := message.Values["record"].(string)
		entry := Entry{StreamID: message.ID, PushID: id, Record: []byte(record)}
		if message.Values == nil {
			removed = append(removed, entry)
		} else {
			entries = append(entries, entry)
		}
	}
	if len(removed) == 0 {
		return entries, nil
	}
	return entries, f.remove(ctx, removed)
}

// takeOver makes what gone consumers hold this one's, and forgets those that hold
// nothing. The group is created if it is not there: what is in the stream then has not
// been dealt with, or is in somebody's hands.
func (f *Follower) takeOver(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	err := f.redis.XGroupCreateMkStream(ctx, f.Stream, f.Group, "0").Err()
	// A full Redis creates nothing, also if it is there. What is dealt with makes room.
	if err != nil && !strings.HasPrefix(err.Error(), "BUSYGROUP") && !strings.HasPrefix(err.Error(), "OOM") {
		return fmt.Errorf("create group %s of stream %s: %w", f.Group, f.Stream, err)
	}
	for from := "0-0"; ; {
		_, from, err = f.redis.XAutoClaimJustID(ctx, &redis.XAutoClaimArgs{
			Stream: f.Stream, Group: f.Group, Consumer: f.consumer, MinIdle: f.silence, Start: from, Count: int64(f.Batch),
		}).Result()
		if err != nil {
			return fmt.Errorf("take over entries of stream %s: %w", f.Stream, err)
		}
		if from == "0-0" {
			break
		}
	}
	return f.forget(ctx, "")
}

// forget forgets consumers that are gone and hold nothing, and the one that is named.
func (f *Follower) forget(ctx context.Context, leaving string) error {
	if err := forgetScript.Run(ctx, f.redis, []string{f.Stream}, f.Group, f.silence.Milliseconds(), leaving).Err(); err != nil {
		return fmt.Errorf("forget consumers of stream %s: %w", f.Stream, err)
	}
	return nil
}

// remove takes entries that have been dealt with from the stream, also while the
// follower stops. What is cut short is seen to be removed when it is read again. It is no
// MULTI, which a full Redis refuses.
func (f *Follower) remove(ctx context.Context, entries []Entry) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	ids := streamIDs(entries)
	if _, err := f.redis.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.XDel(ctx, f.Stream, ids...)
		pipe.XAck(ctx, f.Stream, f.Group, ids...)
		return nil
	}); err != nil {
		return fmt.Errorf("remove %d entries of stream %s: %w", len(ids), f.Stream, err)
	}
	return nil
}

// putAside moves an entry to the stream of those that nobody can deal with.
func (f *Follower) putAside(ctx context.Context, entry Entry) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	if _, err := f.redis.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.XAdd(ctx, &redis.XAddArgs{
			Stream: AsideKey(f.Stream), MaxLen: MaxAside, Approx: true, Values: []any{"id", entry.PushID, "record", entry.Record},
		})
		pipe.XAck(ctx, f.Stream, f.Group, entry.StreamID)
		pipe.XDel(ctx, f.Stream, entry.StreamID)
		return nil
	}); err != nil {
		return fmt.Errorf("put an entry of stream %s aside: %w", f.Stream, err)
	}
	return nil
}

// release makes others take over entries as soon as they look. If Redis does not take
// that, they do it when this follower has been silent for long enough.
func (f *Follower) release(ctx context.Context, entries []Entry) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	claim := []any{"xclaim", f.Stream, f.Group, f.consumer, 0}
	for _, id := range streamIDs(entries) {
		claim = append(claim, id)
	}
	_ = f.redis.Do(ctx, append(claim, "idle", f.silence.Milliseconds(), "justid")...).Err()
}

// leave makes the group forget this follower if it holds nothing. If Redis does not
// take that, the other followers do it later.
func (f *Follower) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	_ = f.forget(ctx, f.consumer)
}

func streamIDs(entries []Entry) []string {
	ids := make([]string, len(entries))
	for place, entry := range entries {
		ids[place] = entry.StreamID
	}
	return ids
}
