// Package redisurl reads the address of a Redis: one server, one behind
// sentinels, or a cluster. It is the only place that knows the forms.
package redisurl

import (
	"errors"
	"net"
	"net/url"
	"path"
	"strconv"
	"strings"

	"pushq/internal/secreturl"
)

// The schemes.
const (
	Plain    = "redis"          // one server over TCP
	TLS      = "rediss"         // the same, encrypted
	Socket   = "redis-socket"   // one server over a socket of this host
	Sentinel = "redis-sentinel" // the master that sentinels name
	Cluster  = "redis-cluster"  // all masters of a cluster
)

// An Address is what a URL says.
type Address struct {
	Scheme string // one of the constants
	// Hosts are host:port: of the server, of each sentinel, or of some nodes of
	// the cluster. None for a socket.
	Hosts    []string
	Socket   string // absolute path
	User     string // "" is the default user
	Password string
	Database int    // 0 in a cluster
	Master   string // the name that the sentinels know
	TLS      bool   // to all servers, sentinels included

	redacted string
}

// Redacted is the URL with xxxxx for its password.
func (a Address) Redacted() string { return a.redacted }

// Parse reads a URL. Its errors quote nothing of it: a password with an
// unescaped character may end up in any part.
func Parse(text string) (Address, error) {
	scheme, _, _ := strings.Cut(text, "://")
	address := Address{Scheme: strings.ToLower(scheme)}
	several := false
	switch address.Scheme {
	case Plain, TLS, Socket:
	case Sentinel, Cluster:
		several = true
	default:
		return Address{}, errors.New("must start with redis://, rediss://, redis-socket://, redis-sentinel:// or redis-cluster://")
	}

	parts, err := secreturl.Cut(text)
	if err != nil {
		return Address{}, err
	}
	list := strings.Split(parts.Hosts, ",")
	if len(list) > 1 && !several {
		return Address{}, errors.New("names several hosts; write redis-sentinel:// for sentinels or redis-cluster:// for a cluster")
	}
	parsed, err := url.Parse(address.Scheme + "://" + list[0] + parts.Tail)
	if err != nil {
		return Address{}, errors.New("is not a valid URL; " + secreturl.Hint)
	}
	address.redacted = address.Scheme + "://" + parts.Hosts + parts.Tail
	if parts.User != nil {
		var hasPassword bool
		address.User = parts.User.Username()
		if address.Password, hasPassword = parts.User.Password(); !hasPassword {
			return Address{}, errors.New("has a user without a password; a password alone is written as redis://:password@host")
		}
		address.redacted = address.Scheme + "://" + url.UserPassword(address.User, "xxxxx").String() + "@" + parts.Hosts + parts.Tail
	}
	switch address.Scheme {
	case Socket:
		err = address.readSocket(parsed)
	case Sentinel:
		err = errors.Join(address.readHosts(list, "26379"), address.readDatabase(parsed.Path), address.readOptions(parsed, "master", "tls"))
	case Cluster:
		err = errors.Join(address.readHosts(list, "6379"), noDatabase(parsed.Path), address.readOptions(parsed, "tls"))
	default:
		address.TLS = address.Scheme == TLS
		err = errors.Join(address.readHosts(list, "6379"), noOptions(parsed), address.readDatabase(parsed.Path))
	}
	if err != nil {
		return Address{}, first(err)
	}
	return address, nil
}

// first is the first of joined errors: one mistake leads to others.
func first(err error) error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()[0]
	}
	return err
}

func (a *Address) readHosts(hosts []string, defaultPort string) error {
	seen := make(map[string]bool)
	for _, host := range hosts {
		parsed, err := url.Parse("redis://" + host)
		switch {
		case err != nil, strings.Contains(parsed.Hostname(), ":") && !strings.HasPrefix(host, "["):
			return errors.New("has a host or port that is not valid; " + secreturl.Hint)
		case parsed.Hostname() == "" && len(hosts) > 1:
			return errors.New("has an empty place in its list of hosts; write " + a.Scheme + "://host:" + defaultPort + ",host:" + defaultPort)
		case parsed.Hostname() == "":
			return errors.New("has no host; write redis://host:6379/0")
		case !ValidPort(parsed):
			return errors.New("has a port that is not between 1 and 65535")
		}
		port := parsed.Port()
		if port == "" {
			port = defaultPort
		}
		host = net.JoinHostPort(parsed.Hostname(), port)
		if seen[host] {
			return errors.New("names the same host twice")
		}
		seen[host] = true
		a.Hosts = append(a.Hosts, host)
	}
	return nil
}

func noOptions(parsed *url.URL) error {
	if parsed.RawQuery != "" || parsed.ForceQuery {
		return errors.New("has a part after ?, which is not supported; the database is written as redis://host:6379/0")
	}
	return nil
}

// readOptions reads what stands after the question mark: only the given names,
// each at most once.
func (a *Address) readOptions(parsed *url.URL, allowed ...string) error {
	values, err := url.ParseQuery(parsed.RawQuery)
	if err != nil {
		return errors.New("has a part after ? that cannot be read")
	}
	known := 0
	for _, name := range allowed {
		if values.Has(name) {
			known++
		}
		if len(values[name]) > 1 {
			return errors.New("says " + name + " twice")
		}
	}
	if known < len(values) {
		return errors.New("has a part after ? that is not supported; only " + strings.Join(allowed, " and ") + " can be set there")
	}
	switch values.Get("tls") {
	case "true":
		a.TLS = true
	case "false":
	default:
		if values.Has("tls") {
			return errors.New("has a tls after ? that is neither true nor false")
		}
	}
	if a.Master = values.Get("master"); a.Scheme == Sentinel && a.Master == "" {
		return errors.New("does not name the master; write redis-sentinel://host:26379,host:26379/0?master=name, with the name in the configuration of the sentinels")
	}
	return nil
}

func (a *Address) readSocket(parsed *url.URL) error {
	if parsed.Host != "" || path.Clean(parsed.Path) == "/" || parsed.Path == "" {
		return errors.New("must name an absolute path, as in redis-socket:///run/redis.sock")
	}
	a.Socket = parsed.Path
	if parsed.RawQuery == "" && !parsed.ForceQuery {
		return nil
	}
	database, found := strings.CutPrefix(parsed.RawQuery, "db=")
	if !found {
		return errors.New("has a part after ? that is not supported; only ?db=0 is")
	}
	return a.selectDatabase(database)
}

func (a *Address) readDatabase(path string) error {
	if database := strings.TrimPrefix(path, "/"); database != "" {
		return a.selectDatabase(database)
	}
	return nil
}

func (a *Address) selectDatabase(text string) error {
	number, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return errors.New("has a database that is not a whole number from 0 on")
	}
	a.Database = int(number)
	return nil
}

func noDatabase(path string) error {
	if path != "" && path != "/" {
		return errors.New("has a part after the hosts; a cluster has no databases to choose from")
	}
	return nil
}

// ValidPort reports whether u has no port, or one between 1 and 65535.
func ValidPort(u *url.URL) bool {
	if u.Port() == "" {
		return !strings.HasSuffix(u.Host, ":")
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	return err == nil && port > 0
}
