package history

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"pgregory.net/rapid"

	"pushq/internal/testenv"
	"pushq/tasks"
)

func TestColumns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	withdrawn := failed("withdrawn", at(2))
	withdrawn.Uncounted = true
	replaced := succeeded("d", at(64))
	replaced.Replacement = "new\x00token"
	windowed := swrvePush("user-1")
	windowed.CronExpression, windowed.TimeZone = "* * 9-17 ? * MON-FRI", "Europe/Stockholm"
	w.write(
		row(tasks.FCM, "01FCM", tasks.Record{Push: fcmPush("user-2", "welcome_notification"),
			Attempts: []tasks.Attempt{failed("a", at(1)), withdrawn, interrupted("c", at(3)), replaced},
			End:      tasks.Sent, EndedAt: at(65)}),
		row(tasks.Swrve, "01SWRVE", tasks.Record{Push: windowed, BudgetFrom: 1,
			Attempts: []tasks.Attempt{failed("a", at(1)), {Token: "b", Status: tasks.AttemptInProcess, StartedAt: at(9)}}}),
	)
	all := func(table, order string) string {
		return "[" + strings.Join(w.values("SELECT to_jsonb(t)::text FROM "+table+" t ORDER BY "+order), ",") + "]"
	}
	require.JSONEq(t, `[
		{"id":"01FCM","channel":"fcm","status":"SENT","platform":null,"message_prototype_key":null,"push_key":null,"message":null,
		 "cron_expression":null,"time_zone":null,"created_at":"2026-11-27T09:00:00.123+00:00","ended_at":"2026-11-27T09:01:05.123+00:00",
		 "attempt_count":3,"budget_from":0,"trace_id":"trace-of-user-2","user_id":"user-2","template_code":"welcome_notification",
		 "notification":{"trace_id":"trace-of-user-2","idempotency_key":"key-of-user-2","user_id":"user-2","notification_type":"push",
		  "recipient":"token","template_code":"welcome_notification","variables":{"name":"Ada"},"language":"en","metadata":{"campaign":"autumn"}}},
		{"id":"01SWRVE","channel":"swrve","status":"RETRY","platform":"IOS","message_prototype_key":"Hello","push_key":"user-1","message":"Hello client!",
		 "cron_expression":"* * 9-17 ? * MON-FRI","time_zone":"Europe/Stockholm","created_at":"2026-11-27T09:00:00.123+00:00","ended_at":null,
		 "attempt_count":1,"budget_from":1,"trace_id":null,"user_id":null,"template_code":null,"notification":null}]`,
		all("push_notifications", "id"))
	require.JSONEq(t, `[
		{"push_id":"01FCM","push_created_at":"2026-11-27T09:00:00.123+00:00","token":"a","number":1,"status":"ERROR","started_at":"2026-11-27T09:00:01.123+00:00","millis":812,
		 "error_type":"FCM","error_code":503,"error_message":"Service Unavailable","stack_trace":null,"maybe_delivered":false,"replacement":null},
		{"push_id":"01FCM","push_created_at":"2026-11-27T09:00:00.123+00:00","token":"c","number":2,"status":"ERROR","started_at":"2026-11-27T09:00:03.123+00:00","millis":null,
		 "error_type":"OTHER","error_code":null,"error_message":"interrupted","stack_trace":null,"maybe_delivered":true,"replacement":null},
		{"push_id":"01FCM","push_created_at":"2026-11-27T09:00:00.123+00:00","token":"d","number":3,"status":"OK","started_at":"2026-11-27T09:01:04.123+00:00","millis":12,
		 "error_type":null,"error_code":null,"error_message":null,"stack_trace":null,"maybe_delivered":false,"replacement":"new�token"},
		{"push_id":"01SWRVE","push_created_at":"2026-11-27T09:00:00.123+00:00","token":"a","number":1,"status":"ERROR","started_at":"2026-11-27T09:00:01.123+00:00","millis":812,
		 "error_type":"FCM","error_code":503,"error_message":"Service Unavailable","stack_trace":null,"maybe_delivered":false,"replacement":null}]`,
		all("send_attempts", "push_id, number"))
	require.JSONEq(t, `[
		{"trace_id":"trace-of-user-2","user_id":"user-2","notification_type":"push","template_id":"welcome_notification","status":"SENT",
		 "metadata":{"campaign":"autumn"},"created_at":"2026-11-27T09:01:05.123+00:00","push_id":"01FCM","ended_at":"2026-11-27T09:01:05.123+00:00"}]`,
		all("audit_logs", "push_id"))
	require.Empty(t, w.values("SELECT push_id FROM unreadable_records"))
}

// life is what the followers of a channel are told of one push that fails, is run again by
// an operator, fails again, and turns out to have been delivered by the second attempt.
func life(push tasks.Push) []tasks.Record {
	at := func(seconds int) tasks.Millis { return push.CreatedAt + at(seconds) - at(0) }
	lateError, lateOK := failed("b", at(2)), succeeded("b", at(2))
	a, b, c, d, e := failed("a", at(1)), interrupted("b", at(2)), failed("c", at(3)), failed("d", at(100)), failed("e", at(200))
	attempts := func(attempts ...tasks.Attempt) []tasks.Attempt { return attempts }
	return []tasks.Record{
		{Push: push, Attempts: attempts(a)},
		{Push: push, Attempts: attempts(a, b, c), End: tasks.GivenUp, EndedAt: at(4)},
		{Push: push, Attempts: attempts(a, lateError, c), BudgetFrom: 3}, // told of by the run that was taken for dead
		{Push: push, Attempts: attempts(a, lateError, c, d), BudgetFrom: 3},
		{Push: push, Attempts: attempts(a, lateError, c, d), BudgetFrom: 3, End: tasks.Cancelled, EndedAt: at(150)},
		{Push: push, Attempts: attempts(a, lateError, c, d, e), BudgetFrom: 4, End: tasks.GivenUp, EndedAt: at(201)},
		{Push: push, Attempts: attempts(a, lateOK, c, d, e), BudgetFrom: 4, End: tasks.Sent, EndedAt: at(202)},
	}
}

// Whatever is repeated, in whatever order and by how many at once, the history is that of
// the newest record, of each of two pushes that have had the same id.
func TestOrderAndRepeatsDoNotMatter(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	others := []*Store{w.store, w.open()}
	pushes := 0
	rapid.Check(t, func(t *rapid.T) {
		pushes++
		id := fmt.Sprintf("PUSH-%d", pushes)
		former, latter := fcmPush("user", "welcome"), fcmPush("another-user", "reset")
		former.CreatedAt = at(-31 * 24 * 3600)
		lives := [][]tasks.Record{
			life(former)[:rapid.IntRange(0, 7).Draw(t, "told of the former")],
			life(latter)[:rapid.IntRange(1, 7).Draw(t, "told of the latter")],
		}
		told := slices.Concat(lives...)
		var order []int
		for place := range told {
			for range rapid.IntRange(1, 3).Draw(t, "times") {
				order = append(order, place)
			}
		}
		var writing errgroup.Group
		rows := make([][]Row, len(others))
		for _, place := range rapid.Permutation(order).Draw(t, "order") {
			writer := rapid.IntRange(0, len(others)-1).Draw(t, "writer")
			rows[writer] = append(rows[writer], row(tasks.FCM, id, told[place]))
		}
		batch := rapid.IntRange(1, 4).Draw(t, "batch")
		for writer, store := range others {
			writing.Go(func() error {
				for place := 0; place < len(rows[writer]); place += batch {
					if err := store.Write(w.t.Context(), rows[writer][place:min(place+batch, len(rows[writer]))]); err != nil {
						return err
					}
				}
				return nil
			})
		}
		require.NoError(t, writing.Wait())

		written := func(instant tasks.Millis) string {
			if instant == 0 {
				return ""
			}
			return instant.Time().Format("2006-01-02 15:04:05.999-07")
		}
		states, attempts, ends := []string{}, []string{}, []string{}
		for _, told := range lives {
			if len(told) == 0 {
				continue
			}
			newest := told[len(told)-1]
			created := written(newest.Push.CreatedAt)
			notification, err := tasks.ParseNotification(newest.Push.Notification)
			require.NoError(t, err)
			states = append(states, fmt.Sprint(created, " ", notification.UserID, " ", stateOf(newest), " ", len(newest.Attempts), " ", written(newest.EndedAt)))
			for place, attempt := range newest.Attempts {
				attempts = append(attempts, fmt.Sprint(created, " ", place+1, " ", attempt.Token, " ", attempt.Status, " ", attempt.ErrorMessage))
			}
			for _, record := range told {
				if record.End != "" {
					ends = append(ends, fmt.Sprint(notification.UserID, " ", record.End, " ", written(record.EndedAt)))
				}
			}
		}
		read := func(query string) []string {
			values, err := queryTexts(w.t.Context(), w.database, query, id)
			require.NoError(t, err)
			return append([]string{}, values...)
		}
		require.Equal(t, states, read(
			"SELECT format('%s %s %s %s %s', created_at, user_id, status, attempt_count, ended_at) FROM push_notifications WHERE id = $1 ORDER BY created_at"))
		require.Equal(t, attempts, read(
			"SELECT format('%s %s %s %s %s', push_created_at, number, token, status, error_message) FROM send_attempts WHERE push_id = $1 ORDER BY push_created_at, number"))
		require.Equal(t, ends, read("SELECT format('%s %s %s', user_id, status, ended_at) FROM audit_logs WHERE push_id = $1 ORDER BY ended_at"))
	})
	require.Empty(t, w.values("SELECT reason FROM unreadable_records"))
}

// What is known already is not written again: xmin names the transaction that wrote a row.
func TestRepeatsWriteNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rows := []Row{{Channel: "fcm", PushID: "00", Record: []byte("no record")}}
	for place, record := range life(fcmPush("user", "welcome")) {
		rows = append(rows, row(tasks.FCM, fmt.Sprint("PUSH-", place), record))
	}
	w.write(rows...)
	written := func() []string {
		return w.values(`SELECT xmin::text FROM push_notifications UNION ALL SELECT xmin::text FROM send_attempts
			UNION ALL SELECT xmin::text FROM audit_logs UNION ALL SELECT xmin::text FROM unreadable_records`)
	}
	before := written()
	w.write(rows...)
	require.Equal(t, before, written())
}

// Writers that have the same pushes in different orders wait for each other, and no
// deadlock makes one of them begin again.
func TestWritersOfTheSamePushes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const writers, pushes = 4, 100
	rows := make([]Row, pushes)
	for number := range rows {
		rows[number] = row(tasks.FCM, fmt.Sprintf("PUSH-%03d", number), sent(fcmPush("user", "welcome")))
	}
	var writing errgroup.Group
	for range writers {
		shuffled := append([]Row{}, rows...)
		rand.Shuffle(pushes, func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		writing.Go(func() error { return w.store.Write(w.t.Context(), shuffled) })
	}
	require.NoError(t, writing.Wait())
	w.requireCounts(pushes, pushes, pushes, 0)
}

// What cannot be stored holds up nothing, and is kept as it is.
func TestUnreadableRecords(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	longToken := sent(fcmPush("user", "welcome"))
	longToken.Attempts[0].Token = randomText(100_000)
	unreadable := []Row{
		{Channel: "fcm", PushID: "01EMPTY"},
		{Channel: "fcm", PushID: "02", Record: []byte("canary-text is no JSON")},
		{Channel: "fcm", PushID: "03", Record: []byte(`null`)},
		{Channel: "fcm", PushID: "04", Record: []byte(`{}`)},
		{Channel: "fcm", PushID: "05", Record: []byte(`{"push":{"message":["canary-text"]}}`)},
		{Channel: "fcm", PushID: "06", Record: []byte(`{"push":{"createdAt":0},"attempts":{}}`)},
		{Channel: "fcm", PushID: "07", Record: []byte(`{"push":{"createdAt":9223372036854775807}}`)},
		{Channel: "fcm", PushID: "08", Record: []byte(`{"push":{"createdAt":-1}}`)},
		{Channel: "fcm", PushID: "09", Record: []byte(`{"push":{"createdAt":1},"endedAt":253402300800000}`)},
		{Channel: "fcm", PushID: "10", Record: []byte(`{"push":{"createdAt":1e300}}`)},
		{Channel: "fcm", PushID: "11\x00\xff", Record: []byte("\x00\xff")},
		{Channel: "fcm", PushID: "12", Record: []byte(`{"push":{"createdAt":1,"notification":` + strings.Repeat(`[`, 20_000) + strings.Repeat(`]`, 20_000) + `}}`)},
		row(tasks.FCM, "13", longToken), // only PostgreSQL sees that it is too long for an index
	}
	rows := []Row{}
	for place, bad := range unreadable {
		rows = append(rows, bad, row(tasks.FCM, fmt.Sprintf("%02d-GOOD", place+1), sent(fcmPush("user", "welcome"))))
	}
	good := len(unreadable)
	for range 2 {
		w.write(rows...)
		w.requireCounts(good, good, good, len(unreadable))
	}
	require.Equal(t, Stats{Written: int64(2 * good), PutAside: int64(2 * len(unreadable))}, w.store.Stats())
	kept := w.values("SELECT encode(record, 'escape') FROM unreadable_records WHERE push_id IN ('02', '03') ORDER BY push_id")
	require.Equal(t, []string{"canary-text is no JSON", "null"}, kept)
	require.Equal(t, []string{"11\uFFFD\uFFFD"}, w.values("SELECT push_id FROM unreadable_records WHERE push_id LIKE '11%'"))
	for _, reason := range w.values("SELECT reason FROM unreadable_records") {
		require.NotEmpty(t, reason)
	}
	require.Contains(t, w.log.String(), "level=ERROR")
	require.NotContains(t, w.log.String(), "canary-text")
}

// What PostgreSQL refuses in texts and JSON is replaced, and the rest stays.
func TestTextsThatPostgreSQLRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	push := swrvePush("user")
	push.Message = "nul \x00 <b>&\" 👋 привет"
	failure := failed("token\x00", at(1))
	failure.ErrorMessage = "provider said \x00\xff"
	notification := fcmPush("user", "welcome")
	notification.Notification = []byte(strings.Replace(string(notification.Notification), `{"campaign":"autumn"}`,
		`{"nul":"\u0000","name\u0000":1,"huge":1e999999,"tiny":-1e-999999,"long":1`+strings.Repeat("0", 20_000)+
			`,"fraction":0.`+strings.Repeat("1", 20_000)+`,"fine":-1.5E+10}`, 1))
	w.write(
		row(tasks.Swrve, "01", tasks.Record{Push: push, Attempts: []tasks.Attempt{failure}}),
		row(tasks.FCM, "02", sent(notification)),
		// Nobody accepts a message with half of a surrogate pair, and it has no user.
		row(tasks.FCM, "04", tasks.Record{Push: tasks.Push{Notification: []byte(`{"user_id":"\ud83d!"}`)}, End: tasks.Failed, EndedAt: at(1)}),
		// As Redis keeps a text with bytes that are no UTF-8.
		Row{Channel: "swrve", PushID: "03", Record: []byte(`{"push":{"message":"` + "a\xffb" + `","createdAt":1764234000123},"end":"CANCELLED","endedAt":1764234000200}`)},
	)
	w.requireCounts(4, 2, 2, 0)
	require.Equal(t, []string{"\uFFFD!"}, w.values("SELECT notification->>'user_id' FROM push_notifications WHERE id = '04'"))
	require.Equal(t, []string{"FAILED"}, w.values("SELECT status FROM audit_logs WHERE push_id = '04' AND user_id IS NULL"))
	require.Equal(t, []string{"nul \uFFFD <b>&\" 👋 привет", "a\uFFFDb"},
		w.values("SELECT message FROM push_notifications WHERE message IS NOT NULL ORDER BY id"))
	require.Equal(t, []string{"provider said \uFFFD\uFFFD"}, w.values("SELECT error_message FROM send_attempts WHERE push_id = '01'"))
	for _, query := range []string{"SELECT metadata - 'long' - 'fraction' FROM audit_logs WHERE push_id = '02'",
		"SELECT (notification->'metadata') - 'long' - 'fraction' FROM push_notifications WHERE id = '02'"} {
		require.JSONEq(t, `{"nul":"\ufffd","name\ufffd":1,"huge":"1e999999","tiny":"-1e-999999","fine":-15000000000}`,
			w.values("SELECT (" + query + ")::text")[0])
	}
	require.Equal(t, []string{"20001 20002"}, w.values("SELECT format('%s %s', length(metadata->>'long'), length(metadata->>'fraction')) FROM audit_logs WHERE push_id = '02'"))
}

// Metadata of a megabyte, of which nobody knows where it comes from: no message is that long.
func TestLargeMetadata(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const pushes = 5
	var rows []Row
	for number := range pushes {
		text, err := json.Marshal(map[string]string{"text": randomText(1 << 20)})
		require.NoError(t, err)
		push := fcmPush("user", "welcome")
		push.Notification = []byte(strings.Replace(string(push.Notification), `{"campaign":"autumn"}`, string(text), 1))
		rows = append(rows, row(tasks.FCM, fmt.Sprintf("PUSH-%03d", number), sent(push)))
	}
	w.write(rows...)
	w.requireCounts(pushes, pushes, pushes, 0)
	require.Equal(t, []string{"1048576"}, w.values("SELECT DISTINCT length(notification->'metadata'->>'text')::text FROM push_notifications"))
}

// A text that is far too long for an index is stored, and found.
func TestLongTexts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	users := []string{strings.Repeat("u", 200) + randomText(20_000), strings.Repeat("u", 200) + randomText(20_000)}
	for place, user := range users {
		w.write(row(tasks.Swrve, fmt.Sprint("PUSH-", place), sent(swrvePush(user))))
	}
	w.requireCounts(2, 2, 0, 0)
	page, err := w.store.Search(t.Context(), Query{User: users[1], Limit: 10})
	require.NoError(t, err)
	require.Len(t, page.Entries, 1)
	require.Equal(t, users[1], page.Entries[0].Report.Push.PushKey)
}

func TestNothingToWriteNeedsNoDatabase(t *testing.T) {
	t.Parallel()
	store := openStore(t, "postgres://127.0.0.1:1/none", &testenv.Log{})
	require.NoError(t, store.Write(t.Context(), nil))
}

// Many processes that start at once on an empty database.
func TestSchemaIsMadeOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var starting sync.WaitGroup
	errs := make([]error, 6)
	for number := range errs {
		store := w.open()
		starting.Go(func() {
			errs[number] = store.Write(w.t.Context(), []Row{row(tasks.FCM, fmt.Sprint("PUSH-", number), sent(fcmPush("user", "welcome")))})
		})
	}
	starting.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	w.requireCounts(6, 6, 6, 0)
	require.Equal(t, 1, strings.Count(w.log.String(), "brought up to date"))
}

// Tables that somebody else has under the same names are left alone.
func TestForeignTable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec("CREATE TABLE audit_logs (id bigint)")
	err := w.store.Write(t.Context(), []Row{row(tasks.FCM, "01", sent(fcmPush("user", "welcome")))})
	require.ErrorContains(t, err, "not pushq's")
	require.ErrorContains(t, err, "audit_logs")
	require.Equal(t, []string{"audit_logs"}, w.values("SELECT tablename::text FROM pg_tables WHERE schemaname = 'public' AND tablename <> $1", versionTable))

	w.exec("DROP TABLE audit_logs")
	w.write(row(tasks.FCM, "01", sent(fcmPush("user", "welcome"))))
	w.requireCounts(1, 1, 1, 0)
}

// randomText cannot be compressed much.
func randomText(length int) string {
	random := rand.New(rand.NewPCG(1, uint64(rand.Uint32())))
	text := make([]byte, length)
	for place := range text {
		text[place] = byte('!' + random.IntN(90))
	}
	return string(text)
}
