package redisconn

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// ErrUnfit means that the server must not be trusted with pushes, or lets us in
// only after somebody has changed a setting, such as a password or an authority.
var ErrUnfit = errors.New("this redis cannot be used")

// ErrReplica means that the server is not the master, or not any more.
var ErrReplica = errors.New("this server is a replica, which takes no pushes: name its master, or wait until it has become one")

// A Warning is what an operator should know of a server that can be used.
type Warning struct {
	Text, Remedy string
}

// String is both in one line.
func (w Warning) String() string { return w.Text + "; " + w.Remedy }

// An UnfitError is why a server cannot be used, and what to do about it. It is
// an ErrUnfit.
type UnfitError struct {
	Reason, Remedy string
	cause          error // may be nil
}

func (e *UnfitError) Error() string {
	text := fmt.Sprintf("%s: %s: %s", ErrUnfit, e.Reason, e.Remedy)
	if e.cause != nil {
		text += ": " + e.cause.Error()
	}
	return text
}

// Unwrap leaves nothing out but a cause that is nil.
func (e *UnfitError) Unwrap() []error {
	if e.cause == nil {
		return []error{ErrUnfit}
	}
	return []error{ErrUnfit, e.cause}
}

// CheckServer checks the server, and opens all connections anew if it is a replica:
// the address may lead to its master by now.
func (c *Clients) CheckServer(ctx context.Context) (warnings []Warning, err error) {
	warnings, err = CheckServer(ctx, c.Read)
	if errors.Is(err, ErrReplica) {
		c.target.connections.refused("role:slave")
	}
	return warnings, err
}

// CheckServer reads from INFO whether the server, or each master of a cluster,
// keeps what it accepts: version 6.2 or later (asynq archives with ZRANGE
// BYSCORE) and maxmemory-policy noeviction. It returns an
// *UnfitError, or warnings, such as of a server without maxmemory. It never asks CONFIG, which many hosted
// services forbid; what INFO does not tell is a warning. What waiting does not
// mend, such as a wrong password, database number or authority, is unfit too.
func CheckServer(ctx context.Context, client redis.UniversalClient) (warnings []Warning, err error) {
	cluster, ok := client.(*redis.ClusterClient)
	if !ok {
		return checkOne(ctx, client)
	}
	var mutex sync.Mutex
	err = cluster.ForEachMaster(ctx, func(ctx context.Context, master *redis.Client) error {
		found, err := checkOne(ctx, master)
		address := master.Options().Addr
		if err != nil {
			return fmt.Errorf("%s: %w", address, err)
		}
		mutex.Lock()
		defer mutex.Unlock()
		for _, warning := range found {
			warnings = append(warnings, Warning{Text: address + ": " + warning.Text, Remedy: warning.Remedy})
		}
		return nil
	})
	if err != nil && !errors.Is(err, ErrUnfit) {
		err = Explain(err) // nobody told who the masters are
	}
	return warnings, err
}

func checkOne(ctx context.Context, client redis.UniversalClient) (warnings []Warning, err error) {
	text, err := client.Info(ctx).Result()
	if redis.HasErrorPrefix(err, "NOPERM") {
		return []Warning{{
			"redis does not let this user run INFO, so nobody has looked whether it keeps what it accepts",
			"pushq needs redis 6.2 or later with maxmemory, maxmemory-policy noeviction and appendonly yes; let its user look by `ACL SETUSER name +info`",
		}}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read INFO of redis: %w", Explain(err))
	}
	info := parseInfo(text)
	if info["role"] == "slave" {
		return nil, ErrReplica
	}
	return judge(info)
}

func judge(info map[string]string) (warnings []Warning, err error) {
	if info["redis_mode"] == embeddedMode {
		return nil, nil // that of `pushq dev`, which says itself that nothing survives
	}
	switch version := info["redis_version"]; {
	case version == "":
		warnings = append(warnings, Warning{"INFO does not tell redis_version", "pushq needs 6.2 or later: look it up"})
	case !atLeast62(version):
		return nil, &UnfitError{Reason: fmt.Sprintf("redis_version is %s, pushq needs 6.2 or later", version), Remedy: "upgrade this server, or name another one by redis.url"}
	}
	switch policy := info["maxmemory_policy"]; policy {
	case "noeviction":
	case "":
		warnings = append(warnings, Warning{"INFO does not tell maxmemory_policy", "it must be noeviction, or Redis may throw pushes away: look it up"})
	default:
		return nil, &UnfitError{
			Reason: fmt.Sprintf("maxmemory-policy is %s, so Redis may throw pushes away", policy),
			Remedy: "set it to noeviction, such as by `redis-cli CONFIG SET maxmemory-policy noeviction` (and in redis.conf)",
		}
	}
	switch info["maxmemory"] {
	case "0":
		warnings = append(warnings, Warning{
			"maxmemory is not set: pushq cannot refuse pushes in time (store-full), and the system ends Redis when memory does",
			"set it well below the host's memory, such as by `redis-cli CONFIG SET maxmemory 2gb` (and in redis.conf)",
		})
	case "":
		warnings = append(warnings, Warning{
			"INFO does not tell maxmemory: without it pushq cannot refuse pushes in time (store-full)",
			"look up whether it is set, well below the host's memory",
		})
	}
	switch info["aof_enabled"] {
	case "1":
	case "":
		warnings = append(warnings, Warning{
			"INFO does not tell aof_enabled: with appendonly no, what Redis accepted since its last snapshot is lost when it stops",
			"look up whether appendonly is yes",
		})
	default:
		warnings = append(warnings, Warning{
			"appendonly is off: what Redis accepted since its last snapshot is lost when it stops",
			"set appendonly yes, such as by `redis-cli CONFIG SET appendonly yes` (and in redis.conf)",
		})
	}
	return warnings, nil
}

func atLeast62(version string) bool {
	parts := strings.SplitN(version, ".", 3)
	major, err := strconv.Atoi(parts[0])
	if err != nil {
		return false
	}
	minor := 0
	if len(parts) > 1 {
		minor, _ = strconv.Atoi(parts[1])
	}
	return major > 6 || major == 6 && minor >= 2
}

// parseInfo reads INFO's lines of the form name:value.
func parseInfo(text string) map[string]string {
	info := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, found := strings.Cut(strings.TrimSpace(line), ":"); found {
			info[name] = value
		}
	}
	return info
}
