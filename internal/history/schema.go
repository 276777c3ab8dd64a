package history

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"
	"github.com/pressly/goose/v3/lock"
)

//go:embed migrations/*.sql
var migrations embed.FS

const (
	// versionTable is not goose's own: the database may belong to others too, who use it.
	versionTable = "pushq_schema_version"
	// schemaLock is the advisory lock under which one process at a time changes the schema:
	// "pushq" in ASCII.
	schemaLock = 0x7075736871
)

// What a Store knows of its tables.
const (
	schemaUnknown int32 = iota
	schemaCurrent
	schemaIncomplete // one of them is gone, whatever the version table says
)

// migrate gives the database the tables that it lacks, and again when one of them is gone.
// Each migration is a transaction of its own together with its row in the version table, so
// one that is cut short has done nothing.
func (s *Store) migrate(ctx context.Context) (err error) {
	if s.schema.Load() == schemaCurrent {
		return nil
	}
	select {
	case s.migrating <- struct{}{}:
		defer func() { <-s.migrating }()
	case <-ctx.Done():
		return fmt.Errorf("wait for the history's schema: %w", ctx.Err())
	}
	if s.schema.Load() == schemaCurrent {
		return nil
	}
	// What is not mended here may be by others: the next call asks anew.
	if s.schema.Swap(schemaUnknown) == schemaIncomplete {
		if _, err := s.pool.Exec(ctx, "DROP TABLE IF EXISTS "+versionTable); err != nil {
			return fmt.Errorf("make a table again that the history has lost: %w", err)
		}
		s.log.Warn("history: a table is gone and is made again")
	}
	connections := stdlib.OpenDBFromPool(s.pool)
	defer func() { err = errors.Join(err, connections.Close()) }()
	provider, err := newMigrations(connections)
	if err != nil {
		return fmt.Errorf("prepare the history's schema: %w", err)
	}
	applied, err := provider.Up(ctx)
	if err != nil {
		return fmt.Errorf("bring the history's schema up to date: %w", err)
	}
	if len(applied) > 0 {
		latest := applied[len(applied)-1].Source.Version
		s.log.Info("history: the schema has been brought up to date", slog.Int64("version", latest))
	}
	s.schema.Store(schemaCurrent)
	return nil
}

// noticeMissing has the tables made again if the error of a statement says that one is
// gone: somebody has dropped it, or put another database in the place of the old one.
func (s *Store) noticeMissing(err error) {
	const undefinedTable = "42P01"
	if refusal, ok := errors.AsType[*pgconn.PgError](err); ok && refusal.Code == undefinedTable {
		s.schema.CompareAndSwap(schemaCurrent, schemaIncomplete)
	}
}

func newMigrations(connections *sql.DB) (*goose.Provider, error) {
	store, err := database.NewStore(database.DialectPostgres, versionTable)
	if err != nil {
		return nil, err
	}
	// Looks for the lock once a second; the context ends it sooner than so many times.
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockID(schemaLock), lock.WithLockTimeout(1, 60), lock.WithUnlockTimeout(1, 3))
	if err != nil {
		return nil, err
	}
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return nil, err
	}
	return goose.NewProvider("", connections, files,
		goose.WithStore(store), goose.WithSessionLocker(locker), goose.WithDisableGlobalRegistry(true))
}
