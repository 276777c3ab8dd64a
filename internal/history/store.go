// Package history keeps what became of pushes in PostgreSQL, for longer than Redis
// does: the pushes of all channels, their attempts, and the audit log of templated ones.
package history

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"pushq/internal/loopback"
)

// Store is a history in a PostgreSQL database. It is safe for concurrent use, by many
// processes too.
type Store struct {
	pool *pgxpool.Pool
	log  *slog.Logger
	// timeout bounds one transaction.
	timeout time.Duration

	migrating chan struct{} // has one place
	schema    atomic.Int32  // what is known of the tables: see schema.go

	written, putAside, failures atomic.Int64 // see Stats
}

// Stats are a Store's numbers so far.
type Stats struct {
	Written  int64 // records that are in the tables
	PutAside int64 // records that are in unreadable_records
	Failures int64 // transactions that the database did not take, though not for what was in them
}

const (
	connectTimeout = 3 * time.Second // unless the URL has a connect_timeout
	// callTimeout is long for a database that works, and short for a caller that can
	// only come again.
	callTimeout = 10 * time.Second
	// closeTimeout is how long a stop waits for the database.
	closeTimeout = time.Second
)

// These quote nothing: pgx leaves a password out only where it recognizes one.
var (
	errURL        = errors.New("must be postgres://user:password@host:5432/database, with what is special in the password percent-encoded")
	errParameters = errors.New("has a parameter that cannot be used, " +
		"or a parameter (sslrootcert, sslcert, sslkey) names a file that cannot be used")
)

// CheckURL says whether the address of a database can be read, with the files that it
// names. It quotes nothing of it.
func CheckURL(text string) error {
	_, err := readURL(text)
	return err
}

func readURL(text string) (*pgxpool.Config, error) {
	if !strings.HasPrefix(text, "postgres://") && !strings.HasPrefix(text, "postgresql://") {
		return nil, errURL
	}
	config, err := pgxpool.ParseConfig(text)
	if err == nil {
		return config, nil
	}
	address, _, _ := strings.Cut(text, "?")
	if _, err := pgxpool.ParseConfig(address); err == nil {
		return nil, errParameters
	}
	return nil, errURL
}

// IsOnThisHost reports whether the database of a URL that CheckURL accepts is one of this
// host: at a loopback address or a Unix socket. Of several hosts, all must be.
func IsOnThisHost(url string) bool {
	config, err := pgxpool.ParseConfig(url)
	if err != nil || !isOnThisHost(config.ConnConfig.Host, config.ConnConfig.Port) {
		return false
	}
	for _, other := range config.ConnConfig.Fallbacks {
		if !isOnThisHost(other.Host, other.Port) {
			return false
		}
	}
	return true
}

func isOnThisHost(host string, port uint16) bool {
	network, _ := pgconn.NetworkAddress(host, port)
	return network == "unix" || loopback.Is(host)
}

// Open prepares a history in the database of a postgres:// URL. The database is connected to
// when the history is first used, and then given its tables; it may be away before that and
// at any time.
func Open(ctx context.Context, url string, log *slog.Logger) (*Store, error) {
	config, err := readURL(url)
	if err != nil {
		return nil, err
	}
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = connectTimeout
	}
	if parameters := config.ConnConfig.RuntimeParams; parameters["application_name"] == "" {
		parameters["application_name"] = "pushq"
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("open the history: %w", err)
	}
	return &Store{pool: pool, log: log, timeout: callTimeout, migrating: make(chan struct{}, 1)}, nil
}

// Close ends the connections. No call may be under way. It does not wait for long for a
// database that stands still, to which pgx would say goodbye for 15 seconds each.
func (s *Store) Close() {
	closed := make(chan struct{})
	go func() {
		s.pool.Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(closeTimeout):
	}
}

// Stats returns the numbers so far.
func (s *Store) Stats() Stats {
	return Stats{Written: s.written.Load(), PutAside: s.putAside.Load(), Failures: s.failures.Load()}
}

// Check returns an error if the database does not answer, or cannot be given its tables.
func (s *Store) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	if err := s.migrate(ctx); err != nil {
		return explain(err)
	}
	return explain(s.pool.Ping(ctx))
}
