package history

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"pushq/tasks"
)

func TestErrorsThatNeedSomebodySayWhatToDo(t *testing.T) {
	t.Parallel()
	for code, advice := range map[string]string{
		"28P01": "password of history.postgresUrl", "28000": "pg_hba.conf", "3D000": "create it", "42501": "GRANT", "25006": "primary", "53300": "max_connections",
		"53100": "disk", "53200": "memory", "57P01": "shut down", "57P03": "starting", "58030": "disk",
	} {
		refusal := fmt.Errorf("connect: %w", &pgconn.PgError{Code: code, Message: "no"})
		require.ErrorContains(t, explain(refusal), advice)
		require.ErrorIs(t, explain(refusal), refusal)
	}
	away := errors.New("connection refused")
	require.Equal(t, away, explain(away))
	require.NoError(t, explain(nil))
}

// A database that cannot be used now can be once somebody has mended it, without a new
// start.
func TestADatabaseThatIsMended(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec("REVOKE ALL ON SCHEMA public FROM public")
	rows := []Row{row(tasks.FCM, "01", sent(fcmPush("user", "welcome")))}
	for _, test := range []struct{ user, database, advice, mend string }{
		{"stranger", "postgres", "correct the user", "CREATE ROLE stranger LOGIN"},
		{"stranger", "postgres", "GRANT it CREATE", "GRANT ALL ON SCHEMA public TO stranger"},
		{"test", "later", "create it", "CREATE DATABASE later"},
		{"test", "readonly", "create it", "CREATE DATABASE readonly"},
	} {
		store := openStore(t, w.urlOf(test.user, test.database), w.log)
		calls := map[string]func(context.Context) error{
			"write": func(ctx context.Context) error { return store.Write(ctx, rows) },
			"check": store.Check,
			"search": func(ctx context.Context) error {
				_, err := store.Search(ctx, Query{Limit: 1})
				return err
			},
		}
		for name, call := range calls {
			require.ErrorContains(t, call(t.Context()), test.advice, name)
		}
		w.exec(test.mend)
		if test.advice != "correct the user" { // then there is the next thing to mend
			require.NoError(t, store.Write(t.Context(), rows))
			require.NoError(t, store.Check(t.Context()))
		}
	}
	w.exec("ALTER DATABASE readonly SET default_transaction_read_only = on")
	readOnly := openStore(t, w.urlOf("test", "readonly"), w.log)
	require.ErrorContains(t, readOnly.Write(t.Context(), []Row{row(tasks.FCM, "02", sent(fcmPush("user", "welcome")))}), "takes no writes")
}
