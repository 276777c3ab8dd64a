package tasks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"pushq/internal/secreturl"
)

func TestWhatAnErrorOfRedisMeans(t *testing.T) {
	t.Parallel()
	for text, meaning := range map[string]error{
		"OOM command not allowed when used memory > 'maxmemory'.":                                    ErrNotStored,
		"READONLY You can't write against a read only replica.":                                      ErrNotStored,
		"MISCONF Redis is configured to save RDB snapshots":                                          ErrNotStored,
		"LOADING Redis is loading the dataset in memory":                                             ErrNotStored,
		"MASTERDOWN Link with MASTER is down":                                                        ErrNotStored,
		"CLUSTERDOWN The cluster is down":                                                            ErrNotStored,
		"NOREPLICAS Not enough good replicas to write.":                                              ErrNotStored,
		"MOVED 1813 127.0.0.1:6380":                                                                  ErrNotStored,
		"ASK 1813 127.0.0.1:6380":                                                                    ErrNotStored,
		"TRYAGAIN Multiple keys request during rehashing of slot":                                    ErrNotStored,
		"redis: all sentinels specified in configuration are unreachable: context deadline exceeded": ErrNotStored,
		"tls: failed to verify certificate: x509: certificate signed by unknown authority":           ErrNotStored,
		"NOAUTH Authentication required.":                                                            ErrNotStored,
		"WRONGPASS invalid username-password pair":                                                   ErrNotStored,
		"NOPERM this user has no permissions":                                                        ErrNotStored,
		"ERR The user executing the script can't run this command or subcommand script: 9c1c":        ErrNotStored,
		"ERR ACL failure in script: User u has no permissions to run the 'set' command":              ErrNotStored,
		"ERR user_script:1: attempt to index local 'a' (a nil value) script: 9c1c":                   ErrOutcomeUnknown,
		"BUSY Redis is busy running a script.":                                                       ErrNotStored,
		"dial tcp 127.0.0.1:6379: connect: connection refused":                                       ErrNotStored,
		"dial unix /run/redis.sock: connect: no such file or directory":                              ErrNotStored,
		"UNKNOWN: redis command error: SADD failed: OOM command not allowed":                         ErrNotStored,
		"read tcp 127.0.0.1:50000->127.0.0.1:6379: i/o timeout":                                      ErrOutcomeUnknown,
		"write tcp 127.0.0.1:50000->127.0.0.1:6379: write: broken pipe":                              ErrOutcomeUnknown,
		"read tcp 127.0.0.1:50000->127.0.0.1:6379: read: connection reset by peer":                   ErrOutcomeUnknown,
		"some text that nobody has seen yet":                                                         ErrOutcomeUnknown,
	} {
		original := errors.New(text)
		err := storeError(fmt.Errorf("wrapped: %w", original))
		require.ErrorIs(t, err, meaning, text)
		require.ErrorIs(t, err, original, text)
		require.NotErrorIs(t, err, map[error]error{ErrNotStored: ErrOutcomeUnknown, ErrOutcomeUnknown: ErrNotStored}[meaning], text)
	}
	require.ErrorIs(t, storeError(errors.New("UNKNOWN: redis eval error: OOM command not allowed")), ErrStoreFull)
	require.NotErrorIs(t, storeError(errors.New("READONLY You can't write")), ErrStoreFull)
	require.ErrorIs(t, storeError(redis.ErrClosed), ErrNotStored)
	require.ErrorIs(t, storeError(redis.ErrPoolTimeout), ErrNotStored)
	// Texts of the client may have words in them that are the password.
	for _, password := range []string{"redis", "pool", "closed"} {
		mask := secreturl.NewMask([]string{password})
		require.ErrorIs(t, storeError(mask.Error(redis.ErrClosed)), ErrNotStored, password)
		require.ErrorIs(t, storeError(mask.Error(redis.ErrPoolTimeout)), ErrNotStored, password)
	}
	require.ErrorIs(t, storeError(errors.New("UNKNOWN: redis eval error: [secret]: connection pool timeout")), ErrNotStored)
	require.ErrorIs(t, storeError(io.EOF), ErrOutcomeUnknown)
	require.ErrorIs(t, storeError(context.DeadlineExceeded), ErrOutcomeUnknown)
}
