package config

import (
	"fmt"
	"log/slog"

	"pushq/internal/redisurl"
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
	address, err := redisurl.Parse(string(r))
	if err != nil {
		return masked
	}
	return address.Redacted()
}

// GoString is what %#v prints.
func (r RedisURL) GoString() string { return r.String() }

// Format prints the URL without its password whatever the verb is.
func (r RedisURL) Format(state fmt.State, _ rune) { fmt.Fprint(state, r.String()) }

// MarshalText leaves the password out in JSON, YAML and other encodings.
func (r RedisURL) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// LogValue leaves the password out in logs.
func (r RedisURL) LogValue() slog.Value { return slog.StringValue(r.String()) }
