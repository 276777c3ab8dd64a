package tasks

import (
	"crypto/sha256"
	"strings"

	"github.com/oklog/ulid/v2"
)

// NewID returns a fresh push id: a ULID, so that ids sort by time. It has no
// dashes, because asynqmon shows an id only up to the first one.
func NewID() string { return ulid.Make().String() }

// KeyedID derives a push id from an idempotency key and the caller that used
// it, so that a repeated POST finds the push of the first one. It has the form
// of a ULID, but no time in it.
func KeyedID(caller, idempotencyKey string) string {
	sum := sha256.Sum256([]byte(caller + "\x00" + idempotencyKey))
	return ulid.ULID(sum[:16]).String()
}

// ValidID reports whether id has the form of a push id; nothing else can name
// a push.
func ValidID(id string) bool {
	_, err := ulid.ParseStrict(id)
	return err == nil && id == strings.ToUpper(id)
}
