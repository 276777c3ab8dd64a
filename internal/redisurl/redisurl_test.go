package redisurl_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pushq/internal/redisurl"
)

func TestParse(t *testing.T) {
	t.Parallel()
	hosts := func(list ...string) []string { return list }
	for text, want := range map[string]redisurl.Address{
		"redis://localhost":               {Scheme: "redis", Hosts: hosts("localhost:6379")},
		"redis://localhost/":              {Scheme: "redis", Hosts: hosts("localhost:6379")},
		"redis://10.0.0.1:1/15":           {Scheme: "redis", Hosts: hosts("10.0.0.1:1"), Database: 15},
		"redis://:p%40%2Fss@h:65535":      {Scheme: "redis", Hosts: hosts("h:65535"), Password: "p@/ss"},
		"redis://user:@h":                 {Scheme: "redis", Hosts: hosts("h:6379"), User: "user"},
		"redis://[::1]":                   {Scheme: "redis", Hosts: hosts("[::1]:6379")},
		"redis://[::1]:7/2":               {Scheme: "redis", Hosts: hosts("[::1]:7"), Database: 2},
		"REDIS://h":                       {Scheme: "redis", Hosts: hosts("h:6379")},
		"rediss://user:pw@r.example/3":    {Scheme: "rediss", Hosts: hosts("r.example:6379"), User: "user", Password: "pw", Database: 3, TLS: true},
		"redis-socket:///run/redis.sock":  {Scheme: "redis-socket", Socket: "/run/redis.sock"},
		"Redis-Socket:///r":               {Scheme: "redis-socket", Socket: "/r"},
		"redis-socket://u:p@/a%20b?db=12": {Scheme: "redis-socket", Socket: "/a b", User: "u", Password: "p", Database: 12},
		"redis-socket://:p@/r?db=0":       {Scheme: "redis-socket", Socket: "/r", Password: "p"},

		"redis-sentinel://a?master=m":                           {Scheme: "redis-sentinel", Hosts: hosts("a:26379"), Master: "m"},
		"redis-sentinel://a:1,b,[::1]:3,[::2]/2?master=my-name": {Scheme: "redis-sentinel", Hosts: hosts("a:1", "b:26379", "[::1]:3", "[::2]:26379"), Master: "my-name", Database: 2},
		"redis-sentinel://u:p%2C@a,b/?tls=true&master=m%20n":    {Scheme: "redis-sentinel", Hosts: hosts("a:26379", "b:26379"), Master: "m n", User: "u", Password: "p,", TLS: true},
		"redis-cluster://a":                                     {Scheme: "redis-cluster", Hosts: hosts("a:6379")},
		"redis-cluster://:p@a:1,b:2/":                           {Scheme: "redis-cluster", Hosts: hosts("a:1", "b:2"), Password: "p"},
		"Redis-Cluster://[::1],b?tls=true":                      {Scheme: "redis-cluster", Hosts: hosts("[::1]:6379", "b:6379"), TLS: true},
		"redis-cluster://a?tls=false":                           {Scheme: "redis-cluster", Hosts: hosts("a:6379")},
	} {
		got, err := redisurl.Parse(text)
		require.NoError(t, err, text)
		require.Equal(t, want.Scheme, got.Scheme, text)
		require.Equal(t, want.Hosts, got.Hosts, text)
		require.Equal(t, want.Socket, got.Socket, text)
		require.Equal(t, [2]string{want.User, want.Password}, [2]string{got.User, got.Password}, text)
		require.Equal(t, want.Database, got.Database, text)
		require.Equal(t, want.Master, got.Master, text)
		require.Equal(t, want.TLS, got.TLS, text)
	}
}

var refused = map[string]string{
	"":                                     "must start with",
	"redis:h":                              "must start with",
	"redis-socket:/a://b":                  "must start with",
	"unix:///r":                            "must start with",
	"redis://":                             "has no host",
	"redis:///0":                           "has no host",
	"redis://h:":                           "port that is not between",
	"redis://h:0":                          "port that is not between",
	"redis://h:65536":                      "port that is not between",
	"redis://h:x":                          "not a valid URL",
	"redis://h:+1":                         "not a valid URL",
	"redis://[::1":                         "not a valid URL",
	"redis://a:1,b:2":                      "several hosts",
	"redis://::1":                          "valid",
	"redis://u:%zz@h":                      "cannot be read",
	"redis://u: p@h":                       "cannot be read",
	"redis://u:\x01@h":                     "cannot be read",
	"redis-sentinel://u:12/0?master=a@h":   "an @ behind the hosts",
	"redis://h/x":                          "database",
	"redis://h//1":                         "database",
	"redis://h/2147483648":                 "database",
	"redis://h?":                           "part after ?",
	"redis://h?db=1":                       "part after ?",
	"rediss://h?tls=true":                  "part after ?",
	"redis://u:1#2@h":                      "part after #",
	"redis://user@h":                       "user without a password",
	"redis-socket://":                      "absolute path",
	"redis-socket:///.":                    "absolute path",
	"redis-socket://run/r":                 "absolute path",
	"redis-socket:///r?":                   "part after ?",
	"redis-socket:///r?db=-1":              "database",
	"redis-socket:///r?db=%31":             "database",
	"redis-sentinel://a:1,b:2/0":           "does not name the master",
	"redis-sentinel://a/0?master=":         "does not name the master",
	"redis-sentinel://a?master=m&master=n": "says master twice",
	"redis-sentinel://a?name=m":            "only master and tls",
	"redis-sentinel://a?master=m&db=1":     "only master and tls",
	"redis-sentinel://a?master=m;x":        "cannot be read",
	"redis-sentinel://a?master=m&tls=yes":  "neither true nor false",
	"redis-sentinel://a?master=m&tls=":     "neither true nor false",
	"redis-sentinel://a/x?master=m":        "database",
	"redis-sentinel://a,,b?master=m":       "empty place",
	"redis-sentinel://a,?master=m":         "empty place",
	"redis-sentinel://?master=m":           "has no host",
	"redis-sentinel://a,b:0?master=m":      "port that is not between",
	"redis-sentinel://a,b:x?master=m":      "host or port that is not valid",
	"redis-sentinel://a:26379,a?master=m":  "same host twice",
	"redis-sentinel://u@a,b?master=m":      "user without a password",
	"redis-sentinel://u:1#2@a,b?master=m":  "part after #",
	"redis-cluster://a:1,b:2/0":            "no databases",
	"redis-cluster://a?master=m":           "only tls",
	"redis-cluster://a,b:":                 "port that is not between",
	"redis-cluster://":                     "has no host",
	"redis-cluster://a#f":                  "part after #",
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range refused {
		_, err := redisurl.Parse(text)
		require.ErrorContains(t, err, want, text)
		require.NotContains(t, err.Error(), "\n", text)
	}
}

func TestRedactedHidesThePassword(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"redis://h":                                "redis://h",
		"redis://:hush@h:1/2":                      "redis://:xxxxx@h:1/2",
		"redis-socket://user:hush@/r?db=1":         "redis-socket://user:xxxxx@/r?db=1",
		"redis-sentinel://u:hush@a:1,b/3?master=m": "redis-sentinel://u:xxxxx@a:1,b/3?master=m",
		"Redis-Cluster://:hush@a,b?tls=true":       "redis-cluster://:xxxxx@a,b?tls=true",
	} {
		address, err := redisurl.Parse(text)
		require.NoError(t, err, text)
		require.Equal(t, want, address.Redacted())
	}
}

// Whatever comes in, what is accepted is complete, and its redacted form reads
// the same but for the password.
func FuzzParse(f *testing.F) {
	for text := range refused {
		f.Add(text)
	}
	f.Add("redis-sentinel://u:p%2C@a,b/?tls=true&master=m%20n")
	f.Add("redis-cluster://:p@a:1,[::1]:2/")
	f.Add("redis-socket://u:p@/a%20b?db=12")
	f.Fuzz(func(t *testing.T, text string) {
		address, err := redisurl.Parse(text)
		if err != nil {
			return
		}
		require.Equal(t, address.Scheme == redisurl.Socket, len(address.Hosts) == 0)
		require.Equal(t, address.Scheme == redisurl.Socket, address.Socket != "")
		for _, host := range address.Hosts {
			_, err := url.Parse("redis://" + host)
			require.NoError(t, err)
		}
		again, err := redisurl.Parse(address.Redacted())
		require.NoError(t, err, address.Redacted())
		if strings.Contains(address.Redacted(), ":xxxxx@") {
			address.Password = "xxxxx"
		}
		require.Equal(t, address.Hosts, again.Hosts)
		require.Equal(t, address.User, again.User)
		require.Equal(t, address.Password, again.Password)
	})
}
