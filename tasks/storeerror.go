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
	// ErrOutcomeUnknown means that Redis may have taken the command, but did
	// not answer in time.
	ErrOutcomeUnknown = errors.New("redis did not answer in time and may have taken the command")
	// ErrUnreadable means that Redis could not be asked.
	ErrUnreadable = errors.New("redis could not be read")
)

// refusals are texts of errors after which nothing was stored. asynq passes
// the errors of its scripts on as text (internal/rdb: runScriptWithErrorCode),
// so errors.As finds nothing in them.
var refusals = []string{
	"OOM ", "READONLY ", "MISCONF ", "LOADING ", "MASTERDOWN ", "CLUSTERDOWN ", "NOREPLICAS ",
	"MOVED ", "ASK ", "TRYAGAIN ",
	"NOAUTH ", "NOPERM ", "WRONGPASS ", "BUSY ",
	"dial tcp", "dial unix", "all sentinels specified in configuration are unreachable", "tls: failed to verify certificate",
	redis.ErrClosed.Error(), redis.ErrPoolTimeout.Error(),
}

// storeError adds to an error of Redis what it means for the command. What is
// not certain counts as unknown.
func storeError(err error) error {
	text := err.Error()
	for _, refusal := range refusals {
		if strings.Contains(text, refusal) {
			return fmt.Errorf("%w: %w", ErrNotStored, err)
		}
	}
	return fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
}
