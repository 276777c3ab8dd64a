package tasks

import (
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// What a failed call to Redis means for the command that was sent.
var (
	// ErrNotStored means that Redis did not take the command: it could not be
	// reached, or it refused to write.
	ErrNotStored = errors.New("redis did not take the command")
	// ErrStoreFull means that Redis has no memory left for new pushes. What
	// matches it matches ErrNotStored too.
	ErrStoreFull = errors.New("redis is full")
	// ErrOutcomeUnknown means that Redis may have taken the command, but did
	// not answer in time.
	ErrOutcomeUnknown = errors.New("redis did not answer in time and may have taken the command")
	// ErrUnreadable means that Redis could not be asked.
	ErrUnreadable = errors.New("redis could not be read")
	// ErrUnusableKey means that Redis works, but that pushq cannot have written what is
	// under one key: it is of another type, or has another form. Nothing was stored, and
	// repeating the command brings the same until somebody deletes the key.
	ErrUnusableKey = errors.New("redis has something under a key that pushq cannot have written")
)

// writeRefusals begin the errors of a Redis that answers, but takes no writes
// for now. asynq passes the errors of its scripts on as text (internal/rdb:
// runScriptWithErrorCode), so errors.As finds nothing in them.
var writeRefusals = []string{"OOM ", "READONLY ", "MISCONF ", "NOREPLICAS ", "LOADING "}

// otherRefusals are texts of other errors after which nothing was stored.
var otherRefusals = []string{
	"MASTERDOWN ", "CLUSTERDOWN ", "NOAUTH ", "NOPERM ", "WRONGPASS ", "BUSY ",
	"The user executing the script", "ACL failure in script", // a lack of rights, in Redis 7.0 and since 7.2
	"MOVED ", "ASK ", "TRYAGAIN ",
	"dial tcp", "dial unix", "all sentinels specified in configuration are unreachable", "tls: failed to verify certificate",
	"client is closed", "connection pool timeout", // of the client, as asynq passes them on
}

// writeRefusal names why Redis takes no writes ("oom", "readonly", "misconf",
// "noreplicas", "loading"), or returns "" for any other error and none.
func writeRefusal(err error) string {
	return refusalName(firstIn(err, writeRefusals))
}

func refusalName(text string) string { return strings.ToLower(strings.TrimSpace(text)) }

func firstIn(err error, texts []string) string {
	if err == nil {
		return ""
	}
	for _, text := range texts {
		if strings.Contains(err.Error(), text) {
			return text
		}
	}
	return ""
}

// notSent is for a push whose command was not sent because another one failed
// before: that is certain, whatever became of the other.
func notSent(err error) error {
	if stored := storeError(err); errors.Is(stored, ErrNotStored) {
		return stored
	}
	return fmt.Errorf("%w: %w", ErrNotStored, err)
}

// recovered makes an error of a panic in a goroutine where nobody else would
// catch it. It must be deferred itself.
func recovered(err *error) {
	if cause := recover(); cause != nil {
		*err = fmt.Errorf("%w: panic: %v", ErrOutcomeUnknown, cause)
	}
}

// isWrongType reports whether a key has another type than the command is for. Redis
// wraps the error of a command in a script into one of the script.
func isWrongType(err error) bool { return firstIn(err, []string{"WRONGTYPE "}) != "" }

// An UnusableKeyError matches ErrUnusableKey, and names the key.
type UnusableKeyError struct {
	Key   string
	Cause error
}

func (e *UnusableKeyError) Error() string {
	return fmt.Sprintf("%v: %s: %v", ErrUnusableKey, e.Key, e.Cause)
}

// Unwrap makes it match ErrUnusableKey, and its cause.
func (e *UnusableKeyError) Unwrap() []error { return []error{ErrUnusableKey, e.Cause} }

// aboutKey returns an *UnusableKeyError if what is under the key is why a command for it
// failed, and otherwise err as it is.
func aboutKey(key string, err error) error {
	if isWrongType(err) || errors.Is(err, errUndecodable) {
		return &UnusableKeyError{Key: key, Cause: err}
	}
	return err
}

// storeError adds to an error of Redis what it means for the command. What is
// not certain counts as unknown.
func storeError(err error) error {
	switch {
	case errors.Is(err, ErrUnusableKey):
		return err
	case writeRefusal(err) == refusedOOM:
		return fmt.Errorf("%w: %w: %w", ErrNotStored, ErrStoreFull, err)
	case writeRefusal(err) != "", firstIn(err, otherRefusals) != "",
		errors.Is(err, redis.ErrClosed), errors.Is(err, redis.ErrPoolTimeout):
		return fmt.Errorf("%w: %w", ErrNotStored, err)
	default:
		return fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
	}
}
