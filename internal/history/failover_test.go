package history

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"pushq/internal/testenv"
	"pushq/tasks"
)

// urlOfAll is an address with several servers.
func urlOfAll(servers ...*testenv.Postgres) string {
	hosts := ""
	for _, server := range servers {
		hosts += "," + server.Addr()
	}
	return "postgres://test@" + hosts[1:] + "/postgres?sslmode=disable"
}

func writeOne(ctx context.Context, store *Store, id string) error {
	return store.Write(ctx, []Row{row(tasks.FCM, id, sent(fcmPush("user", "welcome")))})
}

// ids are the pushes that the history finds.
func ids(t *testing.T, store *Store) (found []string) {
	t.Helper()
	page, err := store.Search(t.Context(), Query{Limit: MaxPage})
	require.NoError(t, err)
	for _, entry := range page.Entries {
		found = append(found, entry.Report.Push.ID)
	}
	return found
}

// The primary dies and its standby takes over. Until then the history can be read.
func TestFailoverToTheStandby(t *testing.T) {
	t.Parallel()
	primary := testenv.StartPostgres(t)
	log := &testenv.Log{}
	store := openStore(t, primary.URL(), log)
	require.NoError(t, writeOne(t.Context(), store, "01"))
	standby := primary.StartStandby(t)

	alone := openStore(t, standby.URL(), log)
	require.ErrorContains(t, writeOne(t.Context(), alone, "02"), "names a standby (a read-only replica)")
	require.ErrorContains(t, alone.Check(t.Context()), "name the primary")
	require.Equal(t, []string{"01"}, ids(t, alone), "a standby can be read")

	both := openStore(t, urlOfAll(standby, primary), log)
	require.NoError(t, both.Check(t.Context()))
	require.NoError(t, writeOne(t.Context(), both, "02"), "the standby is named first, and passed over")
	testenv.Eventually(t, 20*time.Second, "the standby to have both", func() bool { return len(ids(t, alone)) == 2 })

	primary.Stop()
	require.Error(t, writeOne(t.Context(), both, "03"))
	require.ErrorContains(t, both.Check(t.Context()), "standby")
	require.Len(t, ids(t, both), 2)
	standby.Promote(t)
	testenv.EventuallyNoError(t, 20*time.Second, func() error { return writeOne(t.Context(), both, "03") })
	require.NoError(t, both.Check(t.Context()))
	require.NoError(t, alone.Check(t.Context()))
	require.Len(t, ids(t, alone), 3)
}

// A server takes no writes any more and keeps its connections, as one that is demoted behind a
// proxy: they are dropped, and the next server of the address is used.
func TestAServerThatTakesNoWritesAnyMore(t *testing.T) {
	t.Parallel()
	first, second := testenv.StartPostgres(t), testenv.StartPostgres(t)
	log := &testenv.Log{}
	alone, both, other := openStore(t, first.URL(), log), openStore(t, urlOfAll(first, second), log), openStore(t, second.URL(), log)
	require.NoError(t, other.Check(t.Context()))
	require.NoError(t, writeOne(t.Context(), alone, "01"))
	require.NoError(t, writeOne(t.Context(), both, "02"))
	setReadOnly := func(to string) {
		connection, err := pgx.Connect(t.Context(), first.URL())
		require.NoError(t, err)
		defer func() { require.NoError(t, connection.Close(t.Context())) }()
		for _, statement := range []string{"ALTER SYSTEM SET default_transaction_read_only = " + to, "SELECT pg_reload_conf()"} {
			_, err = connection.Exec(t.Context(), statement)
			require.NoError(t, err)
		}
	}

	setReadOnly("on")
	testenv.Eventually(t, 20*time.Second, "the server to refuse writes", func() bool { return writeOne(t.Context(), alone, "03") != nil })
	require.ErrorContains(t, writeOne(t.Context(), alone, "03"), "default_transaction_read_only is on")
	require.ErrorContains(t, alone.Check(t.Context()), "default_transaction_read_only is on")
	require.Subset(t, ids(t, alone), []string{"01", "02"}, "it can be read")
	// Each of its connections learns by itself that the server has become read-only.
	testenv.Eventually(t, 20*time.Second, "what is written to be in the second server", func() bool {
		return writeOne(t.Context(), both, "03") == nil && slices.Equal(ids(t, other), []string{"03"})
	})
	require.NoError(t, both.Check(t.Context()))

	setReadOnly("off")
	testenv.EventuallyNoError(t, 20*time.Second, func() error { return alone.Check(t.Context()) })
	require.NoError(t, writeOne(t.Context(), alone, "04"))
}

// A check that writes nothing does not find a full disk: the last refusal counts, until
// something has been written, or nobody has tried for a while.
func TestADatabaseWithoutRoomIsNotHealthy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	require.NoError(t, w.store.Check(t.Context()))
	w.exec(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100'; END $$`)
	refuse := func() {
		w.exec("CREATE TRIGGER refuse BEFORE INSERT ON push_notifications FOR EACH ROW EXECUTE FUNCTION refuse()")
		for _, err := range []error{writeOne(t.Context(), w.store, "01"), w.store.Check(t.Context())} {
			require.ErrorContains(t, err, "the disk of PostgreSQL is full")
			require.ErrorContains(t, err, "No space left on device")
		}
		w.exec("DROP TRIGGER refuse ON push_notifications")
	}
	refuse()
	require.Error(t, w.store.Check(t.Context()))
	require.NoError(t, writeOne(t.Context(), w.store, "01"))
	require.NoError(t, w.store.Check(t.Context()))
	refuse()
	refused := w.store.noRoom.Load()
	w.store.noRoom.Store(&refusedWrite{refused.cause, refused.at.Add(-refusalCounts)})
	require.NoError(t, w.store.Check(t.Context()), "another process has written it")
}

// What a user may not do is found before there is anything to write.
func TestAUserWithoutRightsIsNotHealthy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	require.NoError(t, w.store.Check(t.Context()))
	w.exec("CREATE ROLE reader LOGIN; GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader")
	reader := openStore(t, w.urlOf("reader", "postgres"), w.log)
	require.ErrorContains(t, reader.Check(t.Context()), "GRANT")
	for _, table := range []string{"push_notifications", "send_attempts", "audit_logs", "unreadable_records"} {
		w.exec(fmt.Sprintf("GRANT INSERT ON ALL TABLES IN SCHEMA public TO reader; REVOKE INSERT ON %s FROM reader", table))
		require.ErrorContains(t, reader.Check(t.Context()), "permission denied for table "+table)
	}
	w.exec("GRANT INSERT ON ALL TABLES IN SCHEMA public TO reader")
	require.NoError(t, reader.Check(t.Context()))
}
