package history

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"pushq/internal/testenv"
	"pushq/internal/tracing"
	"pushq/tasks"
)

func TestSearch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	begin := func(push tasks.Push, seconds int) tasks.Push {
		push.CreatedAt = at(seconds)
		return push
	}
	w.write(
		row(tasks.FCM, "01", sent(begin(fcmPush("ada", "welcome"), 1))),
		row(tasks.FCM, "02", sent(begin(fcmPush("bob", "welcome"), 2))),
		row(tasks.Swrve, "03", sent(begin(swrvePush("ada"), 3))),
		row(tasks.FCM, "04", tasks.Record{Push: begin(fcmPush("ada", "reset"), 4), Attempts: []tasks.Attempt{failed("a", at(5))}}),
		row(tasks.FCM, "05", tasks.Record{Push: begin(fcmPush("ada", "reset"), 4), Attempts: []tasks.Attempt{failed("a", at(5)), interrupted("b", at(9))},
			End: tasks.Failed, EndedAt: at(70)}),
	)
	for name, example := range map[string]struct {
		query Query
		found string
	}{
		"everything":       {Query{}, "05 04 03 02 01"},
		"user":             {Query{User: "ada"}, "05 04 03 01"},
		"nobody":           {Query{User: "Ada"}, ""},
		"impossible user":  {Query{User: "ada\x00\xff"}, ""},
		"pattern":          {Query{User: "%' OR true --"}, ""},
		"since":            {Query{Since: at(3).Time()}, "05 04 03"},
		"since, too late":  {Query{Since: at(4).Time().Add(time.Nanosecond * 1000)}, ""},
		"until":            {Query{Until: at(3).Time()}, "02 01"},
		"since and until":  {Query{Since: at(2).Time(), Until: at(4).Time()}, "03 02"},
		"status":           {Query{Status: tasks.Sent}, "03 02 01"},
		"retry":            {Query{Status: tasks.Retry}, "04"},
		"trace":            {Query{TraceID: "trace-of-bob"}, "02"},
		"template":         {Query{TemplateCode: "reset"}, "05 04"},
		"all at once":      {Query{User: "ada", Since: at(0).Time(), Until: at(60).Time(), Status: tasks.Failed, TraceID: "trace-of-ada", TemplateCode: "reset"}, "05"},
		"contradiction":    {Query{User: "bob", TemplateCode: "reset"}, ""},
		"in another place": {Query{Since: at(3).Time().In(time.FixedZone("", 7200))}, "05 04 03"},
	} {
		t.Run(name, func(t *testing.T) {
			for limit := 1; limit <= 6; limit++ {
				query := example.query
				query.Limit = limit
				found := []string{}
				for {
					page, err := w.store.Search(t.Context(), query)
					require.NoError(t, err)
					require.LessOrEqual(t, len(page.Entries), limit)
					for _, entry := range page.Entries {
						found = append(found, entry.Report.Push.ID)
					}
					if query.Cursor = page.Next; query.Cursor == "" {
						break
					}
					require.NotEmpty(t, page.Entries)
				}
				require.Equal(t, strings.Fields(example.found), found, "in pages of %d", limit)
			}
		})
	}
	page, err := w.store.Search(t.Context(), Query{User: "ada", Limit: 2})
	require.NoError(t, err)
	require.Equal(t, Entry{Channel: "fcm", EndedAt: at(70).Time(), Report: tasks.Report{State: tasks.Failed,
		Push:     tasks.Push{ID: "05", CreatedAt: at(4), Notification: page.Entries[0].Report.Push.Notification, Trace: tracing.Trace{ID: "trace-of-ada"}},
		Attempts: []tasks.Attempt{failed("a", at(5)), interrupted("b", at(9))}}}, page.Entries[0])
	require.JSONEq(t, string(fcmPush("ada", "reset").Notification), string(page.Entries[0].Report.Push.Notification))
	require.True(t, page.Entries[1].EndedAt.IsZero())
}

// An idempotency key that is used again long after gives another push the same id.
func TestSearchTellsPushesOfOneIDApart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	former, latter := swrvePush("ada"), swrvePush("bob")
	latter.CreatedAt = at(31 * 24 * 3600)
	w.write(
		row(tasks.Swrve, "01", sent(latter)),
		row(tasks.Swrve, "01", tasks.Record{Push: former, Attempts: []tasks.Attempt{failed("a", at(1)), failed("first", at(2))}, End: tasks.GivenUp, EndedAt: at(3)}),
	)
	var found []string
	query := Query{Limit: 1}
	for {
		page, err := w.store.Search(t.Context(), query)
		require.NoError(t, err)
		for _, entry := range page.Entries {
			line := []string{entry.Report.Push.PushKey, string(entry.Report.State)}
			for _, attempt := range entry.Report.Attempts {
				line = append(line, attempt.Token, string(attempt.Status))
			}
			found = append(found, strings.Join(line, " "))
		}
		if query.Cursor = page.Next; query.Cursor == "" {
			break
		}
	}
	require.Equal(t, []string{"bob SENT first OK", "ada GIVEN_UP a ERROR first ERROR"}, found)
	page, err := w.store.Search(t.Context(), Query{Limit: 2})
	require.NoError(t, err)
	require.Len(t, page.Entries[0].Report.Attempts, 1)
	require.Len(t, page.Entries[1].Report.Attempts, 2)
}

// Records may leave out the oldest attempts of many: then several have the same place in
// theirs.
func TestSearchShowsAttemptsByTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b, c, d, e := failed("a", at(1)), failed("b", at(2)), failed("c", at(3)), failed("d", at(4)), succeeded("e", at(5))
	told := []Row{
		row(tasks.Swrve, "01", tasks.Record{Push: swrvePush("ada"), Attempts: []tasks.Attempt{a, b}}),
		row(tasks.Swrve, "01", tasks.Record{Push: swrvePush("ada"), Attempts: []tasks.Attempt{b, c}}),
		row(tasks.Swrve, "01", tasks.Record{Push: swrvePush("ada"), Attempts: []tasks.Attempt{c, d}}),
		row(tasks.Swrve, "01", tasks.Record{Push: swrvePush("ada"), Attempts: []tasks.Attempt{d, e}, End: tasks.Sent, EndedAt: at(6)}),
	}
	for _, order := range [][]int{{0, 1, 2, 3}, {3, 0, 1, 2}} {
		for _, place := range order {
			w.write(told[place])
		}
		page, err := w.store.Search(t.Context(), Query{Limit: 1})
		require.NoError(t, err)
		require.Equal(t, tasks.Sent, page.Entries[0].Report.State)
		require.Equal(t, []tasks.Attempt{a, b, c, d, e}, page.Entries[0].Report.Attempts)
		w.exec("DELETE FROM push_notifications")
	}
}

func TestForgedCursors(t *testing.T) {
	t.Parallel()
	store := openStore(t, "postgres://127.0.0.1:1/none", &testenv.Log{}) // is not asked
	genuine := encodeCursor(tasks.Push{ID: "01", CreatedAt: at(0)})
	_, err := decodeCursor(genuine)
	require.NoError(t, err)
	for _, forged := range []string{
		"x", "\x00", genuine + "A", genuine[1:],
		"bnVsbA", // null
		"e30",    // {}
		encodeCursor(tasks.Push{ID: "01", CreatedAt: -1}),
		encodeCursor(tasks.Push{ID: "01", CreatedAt: 1 << 62}),
		encodeCursor(tasks.Push{ID: "\x00", CreatedAt: 1}),
	} {
		_, err := store.Search(t.Context(), Query{Limit: 1, Cursor: forged})
		require.ErrorIs(t, err, ErrCursor, forged)
	}
}

// With many pushes, no search reads them all.
func TestSearchesUseIndexes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	require.NoError(t, w.store.migrate(t.Context()))
	w.exec(`
INSERT INTO push_notifications (id, channel, status, push_key, created_at, attempt_count, budget_from, trace_id, user_id, template_code)
SELECT 'PUSH-' || n, 'fcm', CASE WHEN n % 1000 = 0 THEN 'FAILED' ELSE 'SENT' END, CASE WHEN n % 2 = 0 THEN 'user-' || n % 5000 END,
	$1::timestamptz + n * interval '1 second', 1, 0, 'trace-' || n, CASE WHEN n % 2 = 1 THEN 'user-' || n % 5000 END, 'template-' || n % 1000
FROM generate_series(1, 50000) n`, start)
	w.exec(`INSERT INTO send_attempts (push_id, push_created_at, token, number, status, maybe_delivered) SELECT id, created_at, 'first', 1, 'OK', false FROM push_notifications`)
	w.exec("ANALYZE")
	cursor := encodeCursor(tasks.Push{ID: "PUSH-40000", CreatedAt: at(40_000)})
	for name, query := range map[string]Query{
		"everything": {}, "user": {User: "user-7"}, "user since": {User: "user-7", Since: at(40_000).Time()},
		"time": {Since: at(49_000).Time(), Until: at(49_100).Time()}, "status": {Status: tasks.Failed},
		"trace": {TraceID: "trace-7"}, "template": {TemplateCode: "template-7"}, "next page": {Cursor: cursor},
		"next page of a user": {User: "user-7", Cursor: cursor},
	} {
		query.Limit = 50
		text, arguments, err := query.sql()
		require.NoError(t, err)
		w.requireIndexes(name, text, arguments)
		query.Limit = MaxPage
		page, err := w.store.Search(t.Context(), query)
		require.NoError(t, err, name)
		require.NotEmpty(t, page.Entries, name)
		require.Len(t, page.Entries[0].Report.Attempts, 1, name)
	}
	w.requireIndexes("attempts", attemptsOf, pgx.NamedArgs{"ids": []string{"PUSH-7", "PUSH-8"}, "times": []time.Time{at(7).Time(), at(8).Time()}})
}

// The statements of docs/security.md are run daily, and those who look at the audit log want
// its newest rows.
func TestStatementsOfTheDocumentsUseIndexes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	require.NoError(t, w.store.migrate(t.Context()))
	w.exec(`INSERT INTO push_notifications (id, channel, status, created_at, attempt_count, budget_from, user_id)
SELECT 'PUSH-' || n, 'fcm', 'SENT', now() - n * interval '1 minute', 1, 0, 'user-' || n FROM generate_series(1, 50000) n`)
	w.exec(`INSERT INTO audit_logs (push_id, status, created_at, ended_at, user_id) SELECT id, status, created_at, created_at, user_id FROM push_notifications`)
	w.exec("ANALYZE")
	document, err := os.ReadFile("../../docs/security.md")
	require.NoError(t, err)
	deletions := regexp.MustCompile(`(?m)^DELETE FROM (?:push_notifications|audit_logs) [^;]+`).FindAllString(string(document), -1)
	require.Len(t, deletions, 4)
	for _, statement := range append(deletions, "SELECT * FROM audit_logs ORDER BY created_at DESC LIMIT 50") {
		w.requireIndexes(statement, statement)
	}
}

// requireIndexes wants a statement to read no whole table.
func (w *world) requireIndexes(name, statement string, arguments ...any) {
	w.t.Helper()
	plan := strings.Join(w.values("EXPLAIN "+statement, arguments...), "\n")
	require.NotContains(w.t, plan, "Seq Scan", name)
}
