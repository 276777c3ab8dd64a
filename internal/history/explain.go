package history

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
)

// advices are what errors of PostgreSQL mean that waiting does not mend, and what to do, by
// their codes (https://www.postgresql.org/docs/current/errcodes-appendix.html).
var advices = map[string]string{
	"28000": "PostgreSQL does not let the user of history.postgresUrl in: correct the user, or allow it in pg_hba.conf",
	"28P01": "PostgreSQL refuses the user or password of history.postgresUrl: correct them",
	"3D000": "the database of history.postgresUrl does not exist: create it, or correct the name",
	"42501": lacksRight,
	"3F000": lacksRight, // or there is no schema at all
	"42703": "the schema has a table that is not pushq's under one of its names (audit_logs, push_notifications, send_attempts, " +
		"unreadable_records): rename it, or give pushq a database or schema of its own",
	"25006": "the PostgreSQL of history.postgresUrl takes no writes any more: it has become a standby, or its transactions are read-only. " +
		"The next try looks for the primary among all servers that history.postgresUrl names",
	"53100": "the disk of PostgreSQL is full: make room there",
	"53200": "PostgreSQL has run out of memory: give it more, or fewer connections",
	"53300": "PostgreSQL has no connections left: allow more (max_connections)",
	"57P01": "PostgreSQL is being shut down: start it again, or name its other servers in history.postgresUrl too",
	"57P03": "PostgreSQL is starting, or recovering from a crash: if that does not end, its log says why",
	"58030": "PostgreSQL cannot read or write its disk: its log says more",
}

const (
	lacksRight = "the user of history.postgresUrl lacks a right: it makes its tables itself, so GRANT it CREATE and USAGE on the schema " +
		"(public, unless its search_path says otherwise), and all rights on tables that others have made for it"
	isStandby = "history.postgresUrl names a standby (a read-only replica), which takes no writes: name the primary, " +
		"or all servers (postgres://user:password@one,two/database): the one that takes writes is used"
	isReadOnly = "the PostgreSQL of history.postgresUrl takes no writes (default_transaction_read_only is on for the server, the database " +
		"or the user): turn it off, after making room if a provider has set it because the disk is full"
)

// explain adds what to do about an error that the database has answered. A server that takes
// no writes comes first: of several, the others are only not there.
func explain(err error) error {
	refusal, ok := errors.AsType[*pgconn.PgError](err)
	switch {
	case errors.Is(err, errReadOnly):
		return fmt.Errorf("%s: %w", isReadOnly, err)
	case errors.Is(err, errStandby):
		return fmt.Errorf("%s: %w", isStandby, err)
	case ok && advices[refusal.Code] != "":
		return fmt.Errorf("%s: %w", advices[refusal.Code], err)
	}
	return err
}
