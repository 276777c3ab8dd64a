package config

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"path"
	"strconv"
	"strings"
)

// RedisURL is the address of a Redis, and may hold its password. Printed in any
// way it shows the password as xxxxx; one that is not well formed, where the
// password cannot be told from the rest, shows as "[secret]".
type RedisURL string

// Reveal returns the URL with its password, for the one place that connects.
func (r RedisURL) Reveal() string { return string(r) }

// String returns the URL without its password.
func (r RedisURL) String() string {
	if r == "" {
		return ""
	}
	parsed, err := r.parse()
	if err != nil {
		return masked
	}
	return parsed.Redacted()
}

// GoString is what %#v prints.
func (r RedisURL) GoString() string { return r.String() }

// Format prints the URL without its password whatever the verb is.
func (r RedisURL) Format(state fmt.State, _ rune) { fmt.Fprint(state, r.String()) }

// MarshalText leaves the password out in JSON, YAML and other encodings.
func (r RedisURL) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// LogValue leaves the password out in logs.
func (r RedisURL) LogValue() slog.Value { return slog.StringValue(r.String()) }

// parse checks the form of the URL. Its errors quote nothing of the URL: a
// password with an unescaped character may end up in any part of it.
func (r RedisURL) parse() (*url.URL, error) {
	scheme, _, _ := strings.Cut(string(r), "://")
	switch strings.ToLower(scheme) {
	case "redis", "rediss", "redis-socket":
	case "redis-sentinel", "redis-cluster":
		return nil, fmt.Errorf("%s:// is not supported yet; use redis://, rediss:// or redis-socket://", strings.ToLower(scheme))
	default:
		return nil, errors.New("must start with redis://, rediss:// or redis-socket://")
	}
	parsed, err := url.Parse(string(r))
	if err != nil {
		return nil, errors.New("is not a valid URL; special characters in the password are written as %XX")
	}
	if parsed.User != nil {
		if _, hasPassword := parsed.User.Password(); !hasPassword {
			return nil, errors.New("has a user without a password; a password alone is written as redis://:password@host")
		}
	}
	if parsed.Fragment != "" {
		return nil, errors.New("has a part after #; special characters in the password are written as %XX")
	}
	if parsed.Scheme == "redis-socket" {
		return parsed, checkSocket(parsed)
	}
	return parsed, checkHostAndDatabase(parsed)
}

func checkHostAndDatabase(parsed *url.URL) error {
	if parsed.Hostname() == "" {
		return errors.New("has no host; write redis://host:6379/0")
	}
	if !validPort(parsed) {
		return errors.New("has a port that is not between 1 and 65535")
	}
	if parsed.RawQuery != "" || parsed.ForceQuery {
		return errors.New("has a part after ?, which is not supported; the database is written as redis://host:6379/0")
	}
	if database := strings.TrimPrefix(parsed.Path, "/"); database != "" {
		return checkDatabase(database)
	}
	return nil
}

func checkSocket(parsed *url.URL) error {
	if parsed.Host != "" || path.Clean(parsed.Path) == "/" || parsed.Path == "" {
		return errors.New("must name an absolute path, as in redis-socket:///run/redis.sock")
	}
	if parsed.RawQuery == "" && !parsed.ForceQuery {
		return nil
	}
	database, found := strings.CutPrefix(parsed.RawQuery, "db=")
	if !found {
		return errors.New("has a part after ? that is not supported; only ?db=0 is")
	}
	return checkDatabase(database)
}

func checkDatabase(database string) error {
	if _, err := strconv.ParseUint(database, 10, 31); err != nil {
		return errors.New("has a database that is not a whole number from 0 on")
	}
	return nil
}

// validPort reports whether u has no port, or one between 1 and 65535.
func validPort(u *url.URL) bool {
	if u.Port() == "" {
		return !strings.HasSuffix(u.Host, ":")
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	return err == nil && port > 0
}
