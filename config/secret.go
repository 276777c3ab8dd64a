package config

import (
	"fmt"
	"log/slog"
)

// masked is printed in place of a secret.
const masked = "[secret]"

// Secret is a text that no way of printing shows: fmt, log/slog, JSON, YAML and
// other encoders print "[secret]", or nothing if it is empty.
type Secret string

// Reveal returns the text itself, for the one place that needs it.
func (s Secret) Reveal() string { return string(s) }

// String returns "[secret]", or nothing if the secret is empty.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return masked
}

// GoString is what %#v prints.
func (s Secret) GoString() string { return s.String() }

// Format prints the mask whatever the verb is: without it %x and %d would
// reach the text.
func (s Secret) Format(state fmt.State, _ rune) { fmt.Fprint(state, s.String()) }

// MarshalText masks the secret in every encoding that knows text, YAML included.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// MarshalJSON masks the secret in JSON.
func (s Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + s.String() + `"`), nil }

// LogValue masks the secret in logs.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }
