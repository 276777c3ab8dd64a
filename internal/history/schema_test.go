package history

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/testenv"
	"pushq/tasks"
)

// A table that somebody has dropped under a running process is made again, and so are all
// of them in an empty database. What the other tables have stays.
func TestTablesThatAreGoneAreMadeAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	reading := w.open() // a process that writes nothing
	rows := []Row{
		row(tasks.FCM, "01", sent(fcmPush("user", "welcome"))),
		{Channel: tasks.FCM.Name, PushID: "02", Record: []byte("no record")},
	}
	w.write(rows...)
	w.requireCounts(1, 1, 1, 1)
	for _, statement := range []string{
		"DROP TABLE audit_logs",
		"DROP TABLE send_attempts",
		"DROP TABLE unreadable_records",
		"DROP TABLE push_notifications CASCADE",
		"DROP TABLE push_notifications, send_attempts, audit_logs, unreadable_records",
		"DROP SCHEMA public CASCADE; CREATE SCHEMA public",
	} {
		w.exec(statement)
		require.ErrorContains(t, w.store.Write(t.Context(), rows), "does not exist", statement)
		testenv.EventuallyNoError(t, 10*time.Second, func() error { return w.store.Write(t.Context(), rows) })
		w.requireCounts(1, 1, 1, 1)
		testenv.EventuallyNoError(t, 10*time.Second, func() error {
			_, err := reading.Search(t.Context(), Query{Limit: 1})
			return err
		})
	}

	w.exec("DROP TABLE push_notifications CASCADE")
	_, err := reading.Search(t.Context(), Query{Limit: 1})
	require.ErrorIs(t, err, ErrUnavailable)
	testenv.EventuallyNoError(t, 10*time.Second, func() error {
		_, err := reading.Search(t.Context(), Query{Limit: 1})
		return err
	})
	w.write(rows...)
	w.exec("DELETE FROM push_notifications")
	w.requireCounts(0, 0, 1, 1) // attempts go with their push
}

// A history that an older pushq has made gets what it lacks, and keeps what it has.
func TestTablesOfAnOlderPushq(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write(row(tasks.FCM, "01", sent(fcmPush("user", "welcome"))))
	w.exec("ALTER TABLE send_attempts DROP COLUMN replacement")
	w.exec("DELETE FROM pushq_schema_version WHERE version_id > 1")

	replaced := sent(fcmPush("user", "welcome"))
	replaced.Attempts[0].Replacement = "new-token"
	store := w.open()
	require.NoError(t, store.Write(t.Context(), []Row{row(tasks.FCM, "02", replaced)}))
	page, err := store.Search(t.Context(), Query{Limit: 2})
	require.NoError(t, err)
	found := map[string]string{}
	for _, entry := range page.Entries {
		found[entry.Report.Push.ID] = entry.Report.Attempts[0].Replacement
	}
	require.Equal(t, map[string]string{"01": "", "02": "new-token"}, found)
}

// Who may not make tables says so, and goes on when somebody else has.
func TestTablesThatOthersMakeAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rows := []Row{row(tasks.FCM, "01", sent(fcmPush("user", "welcome")))}
	w.write(rows...)
	grant := func() {
		w.exec("GRANT SELECT, INSERT, UPDATE ON push_notifications, send_attempts TO writer")
		w.exec("GRANT INSERT ON audit_logs, unreadable_records TO writer")
		w.exec("GRANT SELECT ON pushq_schema_version TO writer")
	}
	w.exec("CREATE ROLE writer LOGIN")
	grant()
	limited := openStore(t, w.urlOf("writer", "postgres"), w.log)
	require.NoError(t, limited.Write(t.Context(), rows))
	w.exec("DROP TABLE audit_logs")
	require.ErrorContains(t, limited.Write(t.Context(), rows), "does not exist")
	require.ErrorContains(t, limited.Write(t.Context(), rows), "GRANT")
	w.exec("DROP TABLE pushq_schema_version") // as its owner is told to
	require.NoError(t, w.open().Check(t.Context()))
	grant()
	testenv.EventuallyNoError(t, 10*time.Second, func() error { return limited.Write(t.Context(), rows) })
	w.requireCounts(1, 1, 1, 0)
}
