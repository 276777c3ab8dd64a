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
	"25006": "the PostgreSQL of history.postgresUrl takes no writes: name the primary instead of a standby",
	"53300": "PostgreSQL has no connections left: allow more (max_connections)",
}

const lacksRight = "the user of history.postgresUrl lacks a right: it makes its tables itself, so GRANT it CREATE and USAGE on the schema " +
	"(public, unless its search_path says otherwise), and all rights on tables that others have made for it"

// explain adds what to do about an error that the database has answered.
func explain(err error) error {
	if refusal, ok := errors.AsType[*pgconn.PgError](err); ok && advices[refusal.Code] != "" {
		return fmt.Errorf("%s: %w", advices[refusal.Code], err)
	}
	return err
}
