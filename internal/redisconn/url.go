package redisconn

import (
	"crypto/tls"
	"errors"
	"net"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// errURL quotes nothing of the URL, which may hold a password.
var errURL = errors.New("redis.url must be like redis://user:password@host:6379/0, rediss://… or redis-socket:///path?db=0")

// parse reads a URL of exactly the forms that config.RedisURL allows, where
// faults are explained, into options that all clients share.
func parse(text string) (*redis.Options, error) {
	parsed, err := url.Parse(text)
	if err != nil || parsed.Fragment != "" || !strings.HasPrefix(strings.ToLower(text), parsed.Scheme+"://") {
		return nil, errURL
	}
	options := &redis.Options{
		Protocol:                 2,
		DisableIdentity:          true,
		ConnMaxIdleTime:          2 * time.Minute, // sooner than load balancers cut
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	if parsed.User != nil {
		var hasPassword bool
		options.Username = parsed.User.Username()
		if options.Password, hasPassword = parsed.User.Password(); !hasPassword {
			return nil, errURL
		}
	}
	switch parsed.Scheme {
	case "redis", "rediss":
		return options, overTCP(options, parsed)
	case "redis-socket":
		return options, overSocket(options, parsed)
	default:
		return nil, errURL
	}
}

func overTCP(options *redis.Options, parsed *url.URL) error {
	host, port := parsed.Hostname(), parsed.Port()
	if port == "" && !strings.HasSuffix(parsed.Host, ":") {
		port = "6379"
	}
	if number, err := strconv.ParseUint(port, 10, 16); err != nil || number == 0 || host == "" {
		return errURL
	}
	options.Network, options.Addr = "tcp", net.JoinHostPort(host, port)
	if parsed.Scheme == "rediss" {
		options.TLSConfig = &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}
	}
	if parsed.RawQuery != "" || parsed.ForceQuery {
		return errURL
	}
	if database := strings.TrimPrefix(parsed.Path, "/"); database != "" {
		return selectDatabase(options, database)
	}
	return nil
}

func overSocket(options *redis.Options, parsed *url.URL) error {
	if parsed.Host != "" || parsed.Path == "" || path.Clean(parsed.Path) == "/" {
		return errURL
	}
	options.Network, options.Addr = "unix", parsed.Path
	if parsed.RawQuery == "" && !parsed.ForceQuery {
		return nil
	}
	database, found := strings.CutPrefix(parsed.RawQuery, "db=")
	if !found {
		return errURL
	}
	return selectDatabase(options, database)
}

func selectDatabase(options *redis.Options, text string) error {
	number, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return errURL
	}
	options.DB = int(number)
	return nil
}
