package redisconn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// A MissingRightsError says which rights the user of Redis lacks.
type MissingRightsError struct {
	Rights []string // as ACL SETUSER takes them
	told   *TroubleError
}

func (e *MissingRightsError) Error() string { return e.told.Error() }

// Unwrap leaves the cause to errors.Is and errors.As.
func (e *MissingRightsError) Unwrap() error { return e.told }

// triedCommands are those of docs/redis.md that the intake and the workers need, with as
// many arguments as they take. KEY is the key that they are tried with.
var triedCommands = []string{
	"time", "exists KEY", "get KEY", "set KEY 1", "setex KEY 1 1", "del KEY", "expire KEY 1", "expireat KEY 1", "pttl KEY", "incr KEY",
	"hget KEY 1", "hgetall KEY", "hmget KEY 1", "hset KEY 1 1", "hdel KEY 1", "hexists KEY 1", "hvals KEY",
	"llen KEY", "lpush KEY 1", "rpush KEY 1", "lrange KEY 0 0", "lrem KEY 0 1", "lpos KEY 1", "rpoplpush KEY KEY",
	"sadd KEY 1", "srem KEY 1", "smembers KEY", "sismember KEY 1",
	"zadd KEY 1 1", "zcard KEY", "zcount KEY 1 1", "zrange KEY 0 0", "zrangebyscore KEY 1 1", "zrevrange KEY 0 0", "zrevrangebyscore KEY 1 1",
	"zrem KEY 1", "zremrangebyrank KEY 0 0", "zremrangebyscore KEY 1 1", "zscan KEY 0", "zscore KEY 1",
	"eval 1 0", "evalsha 1 0", "scan 0", "publish KEY 1", "object IDLETIME KEY",
}

// triedStreams are those that are needed besides as soon as anybody is told what becomes
// of pushes.
var triedStreams = []string{
	"xadd KEY * 1 1", "xlen KEY", "xrange KEY - +", "xdel KEY 1-1", "xack KEY 1 1-1", "xclaim KEY 1 1 1 1-1", "xautoclaim KEY 1 1 1 0",
	"xreadgroup GROUP 1 1 STREAMS KEY >", "xgroup CREATE KEY 1 0", "xgroup DELCONSUMER KEY 1 1", "xinfo CONSUMERS KEY 1",
}

// CheckRights returns a *MissingRightsError if the user lacks a right to a command that
// pushq needs, with streams set also to those of streams, or to keys like those that are
// named, the first of which is pushq's own.
//
// Redis 6.2 has no command that only asks, and pushq has no right to ACL. But Redis judges
// the right to a command when it is put into a MULTI, and carries nothing of a MULTI out that
// has a faulty command in it: that is the GET without a key.
func CheckRights(ctx context.Context, client redis.UniversalClient, streams bool, key string, others ...string) error {
	var node redis.Cmdable = client
	if cluster, ok := client.(*redis.ClusterClient); ok {
		master, err := cluster.MasterForKey(ctx, key)
		if err != nil {
			return fmt.Errorf("find the node of %s: %w", key, Explain(err))
		}
		node = master
	}
	// Without a right to MULTI itself, or behind a proxy that has no MULTI, the rest would be
	// carried out.
	if refusal, err := tryRights(ctx, node, []string{"+multi", "+exec"}, []string{"multi", "exec"}); err != nil || refusal != nil {
		return err
	}
	rights, commands := []string{""}, []string{"multi"}
	try := func(right, command, key string) {
		rights = append(rights, right)
		commands = append(commands, strings.ReplaceAll(command, "KEY", key))
	}
	for _, command := range triedCommands {
		try(rightTo(command), command, key)
	}
	if streams {
		for _, command := range triedStreams {
			try(rightTo(command), command, key)
		}
	}
	for _, other := range others {
		prefix, _, _ := strings.Cut(other, ":")
		try("~"+prefix+":*", "exists KEY", other)
	}
	try("", "get", "")
	try("", "exec", "")
	_, err := tryRights(ctx, node, rights, commands)
	return err
}

// rightTo names the right to a command as docs/redis.md does.
func rightTo(command string) string {
	words := strings.Fields(command)
	switch words[0] {
	case "xgroup", "xinfo", "object":
		return "+" + words[0] + "|" + strings.ToLower(words[1])
	default:
		return "+" + words[0]
	}
}

// tryRights runs commands on one connection. Any answer will do but that a right is missing.
// The refusal is that of the first command.
func tryRights(ctx context.Context, node redis.Cmdable, rights, commands []string) (refusal, err error) {
	pipe := node.Pipeline()
	for _, command := range commands {
		var arguments []any
		for _, word := range strings.Fields(command) {
			arguments = append(arguments, word)
		}
		pipe.Do(ctx, arguments...)
	}
	replies, err := pipe.Exec(ctx)
	var missing []string
	var cause error
	for place, reply := range replies {
		// The refusal of EXEC quotes it.
		answer := reply.Err()
		if answer == nil || !strings.Contains(answer.Error(), "NOPERM ") {
			continue
		}
		// Without a right to EXISTS, nothing is known of the keys that it is tried with.
		if !strings.HasPrefix(rights[place], "~") || !slices.Contains(missing, "+exists") {
			missing, cause = append(missing, rights[place]), answer
		}
	}
	if cause != nil {
		text := strings.Join(missing, " ")
		return nil, &MissingRightsError{Rights: missing, told: &TroubleError{
			Reason: "its user in redis.url lacks the rights " + text,
			Remedy: "give it those that docs/redis.md lists, such as by `redis-cli ACL SETUSER user " + text + "` (and in the ACL file)",
			cause:  cause,
		}}
	}
	if _, answered := errors.AsType[redis.Error](err); err != nil && !answered {
		return nil, fmt.Errorf("try the rights at redis: %w", Explain(err))
	}
	return replies[0].Err(), nil
}
