package history

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"pushq/internal/testenv"
	"pushq/tasks"
)

// A world is a history in a PostgreSQL of its own.
type world struct {
	t      *testing.T
	server *testenv.Postgres
	store  *Store
	log    *testenv.Log
	// database is what the test looks through.
	database *pgxpool.Pool
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, server: testenv.StartPostgres(t), log: &testenv.Log{}}
	w.store = w.open()
	config, err := pgxpool.ParseConfig(w.server.URL())
	require.NoError(t, err)
	config.ConnConfig.RuntimeParams["timezone"] = "UTC"
	w.database, err = pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(w.database.Close)
	return w
}

// open is one more process with the same database.
func (w *world) open() *Store {
	w.t.Helper()
	return openStore(w.t, w.server.URL(), w.log)
}

// urlOf is the server's, for this user and database.
func (w *world) urlOf(user, database string) string {
	return strings.NewReplacer("test@", user+"@", "/postgres?", "/"+database+"?").Replace(w.server.URL())
}

func openStore(t *testing.T, url string, log *testenv.Log) *Store {
	t.Helper()
	store, err := Open(t.Context(), url, slog.New(slog.NewTextHandler(log, nil)))
	require.NoError(t, err)
	t.Cleanup(store.Close)
	return store
}

func (w *world) write(rows ...Row) {
	w.t.Helper()
	require.NoError(w.t, w.store.Write(w.t.Context(), rows))
}

func (w *world) exec(statement string, arguments ...any) {
	w.t.Helper()
	_, err := w.database.Exec(w.t.Context(), statement, arguments...)
	require.NoError(w.t, err)
}

// values returns the rows of a query with one column, as text.
func (w *world) values(query string, arguments ...any) []string {
	w.t.Helper()
	values, err := queryTexts(w.t.Context(), w.database, query, arguments...)
	require.NoError(w.t, err)
	return values
}

func queryTexts(ctx context.Context, database *pgxpool.Pool, query string, arguments ...any) ([]string, error) {
	rows, err := database.Query(ctx, query, arguments...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var values []string
	for rows.Next() {
		var value string
		if err := rows.Scan(&value); err != nil {
			return nil, err
		}
		values = append(values, value)
	}
	return values, rows.Err()
}

// requireCounts wants so many rows in push_notifications, send_attempts, audit_logs and
// unreadable_records.
func (w *world) requireCounts(pushes, attempts, audits, unreadable int) {
	w.t.Helper()
	counts := make([]string, 4)
	for place, table := range []string{"push_notifications", "send_attempts", "audit_logs", "unreadable_records"} {
		counts[place] = w.values("SELECT count(*)::text FROM " + table)[0]
	}
	require.Equal(w.t, fmt.Sprint([]int{pushes, attempts, audits, unreadable}), fmt.Sprint(counts))
}

var start = time.Date(2026, time.November, 27, 9, 0, 0, 123e6, time.UTC)

// at is so many seconds after the pushes of a test began.
func at(seconds int) tasks.Millis {
	return tasks.MillisOf(start.Add(time.Duration(seconds) * time.Second))
}

// row is a record of a channel as it comes from Redis.
func row(channel tasks.Channel, id string, record tasks.Record) Row {
	encoded, err := json.Marshal(record)
	if err != nil {
		panic(err)
	}
	return Row{Channel: channel.Name, PushID: id, Record: encoded}
}

func swrvePush(user string) tasks.Push {
	return tasks.Push{Platform: tasks.IOS, MessagePrototypeKey: "Hello", PushKey: user, Message: "Hello client!", CreatedAt: at(0)}
}

func fcmPush(user, template string) tasks.Push {
	return tasks.Push{CreatedAt: at(0), Notification: fmt.Appendf(nil, `{"trace_id":"trace-of-%s","idempotency_key":"key-of-%s","user_id":%q,`+
		`"notification_type":"push","recipient":"token","template_code":%q,"variables":{"name":"Ada"},"language":"en","metadata":{"campaign":"autumn"}}`,
		user, user, user, template)}
}

func succeeded(token string, startedAt tasks.Millis) tasks.Attempt {
	millis := int64(12)
	return tasks.Attempt{Token: token, Status: tasks.AttemptOK, StartedAt: startedAt, Millis: &millis}
}

func failed(token string, startedAt tasks.Millis) tasks.Attempt {
	millis := int64(812)
	return tasks.Attempt{Token: token, Status: tasks.AttemptError, StartedAt: startedAt, Millis: &millis,
		ErrorType: tasks.ErrorFCM, ErrorCode: 503, ErrorMessage: "Service Unavailable"}
}

// interrupted is an attempt whose worker has died, as begin.lua closes it.
func interrupted(token string, startedAt tasks.Millis) tasks.Attempt {
	return tasks.Attempt{Token: token, Status: tasks.AttemptError, StartedAt: startedAt,
		ErrorType: tasks.ErrorOther, ErrorMessage: "interrupted", MaybeDelivered: true}
}

// sent is a push that was delivered at its first attempt.
func sent(push tasks.Push) tasks.Record {
	return tasks.Record{Push: push, Attempts: []tasks.Attempt{succeeded("first", push.CreatedAt)},
		End: tasks.Sent, EndedAt: push.CreatedAt + 20}
}
