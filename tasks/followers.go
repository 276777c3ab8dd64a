package tasks

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Followers are the names of those who are told what becomes of a channel's pushes, each in
// a stream of Redis (Channel.FollowKey), by the scripts that write the records and so
// together with it. An entry has the push's id and its whole record, as JSON:
//
//	id     the push
//	record a Record
//
// An entry stays until a reader removes it (internal/follow).
//
// Who follows a channel is kept in Redis (Channel.FollowersKey), where the scripts look: a
// process tells those of other processes too, whatever it is configured for itself.
type Followers struct {
	Ends     []string // told of each end of a push
	Attempts []string // told of each attempt that has an outcome, and of each end
}

// What a follower is told, as the hash of followers has it.
const (
	toldOfEnds     = "ends"
	toldOfAttempts = "attempts"
)

// Names are all of them.
func (f Followers) Names() []string { return slices.Concat(f.Ends, f.Attempts) }

// fields are the names, each with what the follower is told, as in the hash.
func (f Followers) fields() []string {
	var fields []string
	for _, name := range f.Ends {
		fields = append(fields, name, toldOfEnds)
	}
	for _, name := range f.Attempts {
		fields = append(fields, name, toldOfAttempts)
	}
	return fields
}

// argument is how the scripts get them (record.lua: tell).
func (f Followers) argument() string { return strings.Join(f.fields(), " ") }

// AddFollowers makes followers known in Redis: from then on, whoever records what becomes of
// a push of the channel tells them.
func AddFollowers(ctx context.Context, client redis.UniversalClient, channel Channel, followers Followers) error {
	fields := followers.fields()
	if len(fields) == 0 {
		return nil
	}
	key := channel.FollowersKey()
	err := client.HSet(ctx, key, fields).Err()
	if isWrongType(err) { // as record.lua, which writes over it too
		if err = client.Del(ctx, key).Err(); err == nil {
			err = client.HSet(ctx, key, fields).Err()
		}
	}
	if err != nil {
		return fmt.Errorf("add the followers of channel %s: %w", channel.Name, err)
	}
	return nil
}

// ReadFollowers returns the followers that Redis knows, in the order of their names.
func ReadFollowers(ctx context.Context, client redis.UniversalClient, channel Channel) (Followers, error) {
	fields, err := client.HGetAll(ctx, channel.FollowersKey()).Result()
	if err != nil {
		return Followers{}, fmt.Errorf("read the followers of channel %s: %w", channel.Name, err)
	}
	var followers Followers
	for name, told := range fields {
		if told == toldOfAttempts {
			followers.Attempts = append(followers.Attempts, name)
		} else {
			followers.Ends = append(followers.Ends, name)
		}
	}
	slices.Sort(followers.Ends)
	slices.Sort(followers.Attempts)
	return followers, nil
}
