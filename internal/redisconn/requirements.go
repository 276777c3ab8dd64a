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

// CheckServer reads from INFO whether the server, or each master of a cluster,
// keeps what it accepts: version 6.2 or later (asynq archives with ZRANGE
// BYSCORE) and maxmemory-policy noeviction. It returns ErrUnfit with the
// setting to change, or warnings. It never asks CONFIG, which many hosted
// services forbid; what INFO does not tell is a warning. What waiting does not
// mend, such as a wrong password, database number or authority, is unfit too.
func CheckServer(ctx context.Context, client redis.UniversalClient) (warnings []string, err error) {
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
			warnings = append(warnings, address+": "+warning)
		}
		return nil
	})
	if err != nil && !errors.Is(err, ErrUnfit) {
		err = explain(err) // nobody told who the masters are
	}
	return warnings, err
}

func checkOne(ctx context.Context, client redis.UniversalClient) (warnings []string, err error) {
	text, err := client.Info(ctx).Result()
	if redis.HasErrorPrefix(err, "NOPERM") {
		return []string{"redis does not let this user run INFO; pushq needs redis 6.2 or later with maxmemory-policy noeviction and appendonly yes"}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read INFO of redis: %w", explain(err))
	}
	info := parseInfo(text)
	if info["role"] == "slave" {
		return nil, errors.New("this server is a replica, which takes no pushes: name its master, or wait until it has become one")
	}
	return judge(info)
}

func judge(info map[string]string) (warnings []string, err error) {
	switch version := info["redis_version"]; {
	case version == "":
		warnings = append(warnings, "INFO does not tell redis_version; pushq needs 6.2 or later")
	case !atLeast62(version):
		return nil, fmt.Errorf("%w: redis_version is %s, pushq needs 6.2 or later", ErrUnfit, version)
	}
	switch policy := info["maxmemory_policy"]; policy {
	case "noeviction":
	case "":
		warnings = append(warnings, "INFO does not tell maxmemory_policy; it must be noeviction, or Redis may throw pushes away")
	default:
		return nil, fmt.Errorf("%w: maxmemory-policy is %s, so Redis may throw pushes away; set it to noeviction", ErrUnfit, policy)
	}
	switch info["aof_enabled"] {
	case "1":
	case "":
		warnings = append(warnings, "INFO does not tell aof_enabled; with appendonly no, what Redis accepted since its last snapshot is lost when it stops")
	default:
		warnings = append(warnings, "appendonly is off: what Redis accepted since its last snapshot is lost when it stops; set appendonly yes")
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
