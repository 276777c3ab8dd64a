// Package history keeps what became of pushes in PostgreSQL, for longer than Redis
// does: the pushes of all channels, their attempts, and the audit log of templated ones.
package history

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"pushq/internal/secreturl"
)

// Store is a history in a PostgreSQL database. It is safe for concurrent use, by many
// processes too.
type Store struct {
	pool *pgxpool.Pool // to servers that take writes
	// anyServer is for searches while no server takes writes.
	anyServer *pgxpool.Pool
	log       *slog.Logger
	mask      secreturl.Mask
	// timeout bounds one transaction.
	timeout time.Duration

	migrating chan struct{} // has one place
	schema    atomic.Int32  // what is known of the tables: see schema.go

	written, putAside, failures atomic.Int64 // see Stats
	// noRoom is the last transaction, if there was no room for what it had to write.
	noRoom atomic.Pointer[refusedWrite]
}

// Stats are a Store's numbers so far.
type Stats struct {
	Written  int64 // records that are in the tables
	PutAside int64 // records that are in unreadable_records
	Failures int64 // transactions that the database did not take, though not for what was in them
}

const (
	connectTimeout = 3 * time.Second // unless the URL has a connect_timeout
	// pingTimeout is how long a connection that has been idle may take to answer; then
	// another one is made.
	pingTimeout = 2 * time.Second
	// callTimeout is long for a database that works, and short for a caller that can
	// only come again.
	callTimeout = 10 * time.Second
	// closeTimeout is how long a stop waits for the database.
	closeTimeout = time.Second
)

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
	parameters := config.ConnConfig.RuntimeParams
	if parameters["application_name"] == "" {
		parameters["application_name"] = "pushq"
	}
	// It is what pgx writes, whatever the database or the role are set to.
	parameters["client_encoding"] = "UTF8"
	config.PingTimeout = pingTimeout
	anyServer := config.Copy()
	anyServer.MinConns, anyServer.MinIdleConns = 0, 0
	if config.ConnConfig.ValidateConnect == nil { // no target_session_attrs
		config.ConnConfig.ValidateConnect = requireWritable
	}
	store := &Store{log: log, mask: maskOf(url, &config.ConnConfig.Config), timeout: callTimeout, migrating: make(chan struct{}, 1)}
	if store.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, store.told(fmt.Errorf("open the history: %w", err))
	}
	if store.anyServer, err = pgxpool.NewWithConfig(ctx, anyServer); err != nil {
		store.pool.Close()
		return nil, store.told(fmt.Errorf("open the history: %w", err))
	}
	return store, nil
}

// Close ends the connections. No call may be under way. It does not wait for long for a
// database that stands still, to which pgx would say goodbye for 15 seconds each.
func (s *Store) Close() {
	closed := make(chan struct{})
	go func() {
		s.pool.Close()
		s.anyServer.Close()
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

// Check returns an error if nothing can be written: the database does not answer, cannot be
// given its tables, takes no writes from this user, or had no room for the last ones.
func (s *Store) Check(caller context.Context) error {
	ctx, cancel := context.WithTimeout(caller, s.timeout)
	defer cancel()
	err := s.migrate(ctx)
	if err == nil {
		err = s.pool.SendBatch(ctx, emptyWrites()).Close()
		s.noticeMissing(err)
	}
	s.noticeUnwell(caller, err)
	if err == nil {
		err = s.noRoomLately()
	}
	return s.told(err)
}

// emptyWrites write nothing, and are refused where rows would be.
func emptyWrites() *pgx.Batch {
	batch := &pgx.Batch{}
	for _, statement := range []string{
		"INSERT INTO push_notifications (id) SELECT '' WHERE false",
		"INSERT INTO send_attempts (push_id) SELECT '' WHERE false",
		"INSERT INTO audit_logs (push_id) SELECT '' WHERE false",
		"INSERT INTO unreadable_records (push_id) SELECT '' WHERE false",
	} {
		batch.Queue(statement)
	}
	return batch
}

// told is an error as others are told of it: with what to do about it, and without secrets.
func (s *Store) told(err error) error { return s.mask.Error(explain(err)) }
