package history

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"

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

// migrate gives the database the tables that it lacks, once. Each migration is a
// transaction of its own together with its row in the version table, so one that is cut
// short has done nothing.
func (s *Store) migrate(ctx context.Context) (err error) {
	if s.migrated.Load() {
		return nil
	}
	select {
	case s.migrating <- struct{}{}:
		defer func() { <-s.migrating }()
	case <-ctx.Done():
		return fmt.Errorf("wait for the history's schema: %w", ctx.Err())
	}
	if s.migrated.Load() {
		return nil
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
	for _, migration := range applied {
		s.log.Info("history: the schema has been brought up to date", slog.Int64("version", migration.Source.Version))
	}
	s.migrated.Store(true)
	return nil
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
