package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/testenv"
	"pushq/tasks"
)

type itemAnswer struct {
	ID       string           `json:"id"`
	Replayed bool             `json:"replayed"`
	Error    *problemDocument `json:"error"`
}

// itemKind is "accepted", "replayed", or the kind of the item's problem.
func (i itemAnswer) kind() string {
	switch {
	case i.Error != nil:
		return strings.TrimPrefix(i.Error.Type, "urn:pushq:problem:")
	case i.Replayed:
		return "replayed"
	default:
		return "accepted"
	}
}

func (s *testService) postBatch(mediaType, body string, header ...string) answer {
	s.t.Helper()
	return s.send(http.MethodPost, "/push/batch", strings.NewReader(body), append([]string{"Content-Type", mediaType}, header...)...)
}

// items reads the results of a batch that must have been taken.
func (s *testService) items(got answer) []itemAnswer {
	s.t.Helper()
	require.Equal(s.t, http.StatusOK, got.status, got.body)
	require.Equal(s.t, "application/json", got.header.Get("Content-Type"))
	var items []itemAnswer
	decoder := json.NewDecoder(strings.NewReader(got.body))
	decoder.DisallowUnknownFields()
	require.NoError(s.t, decoder.Decode(&items))
	for _, item := range items {
		require.NotEqual(s.t, item.ID == "", item.Error == nil, got.body)
		if item.ID != "" {
			require.True(s.t, tasks.ValidID(item.ID))
		}
		requireNoCanary(s.t, fmt.Sprint(item.Error), "a problem")
	}
	return items
}

func kinds(items []itemAnswer) []string {
	kinds := []string{}
	for _, item := range items {
		kinds = append(kinds, item.kind())
	}
	return kinds
}

const jsonType = "application/json"

func array(items ...string) string { return "[" + strings.Join(items, ",") + "]" }

func repeated(item string, count int) string {
	return array(strings.Split(strings.Repeat(item+"\n", count-1)+item, "\n")...)
}

func TestBatchInEachForm(t *testing.T) {
	t.Parallel()
	s := startService(t)
	two := push() + "\n" + push("platform", `"ANDROID"`)
	for place, batch := range []struct{ mediaType, body string }{
		{jsonType, array(push(), push("platform", `"ANDROID"`))},
		{"application/json; charset=utf-8", " [ " + push() + " , " + push() + "\n]\n"},
		{"application/vnd.fourfinanceit.v1+json", array(push(), push())},
		{ndjsonMediaType, two},
		{ndjsonMediaType, two + "\n"},
		{ndjsonMediaType, two + "\n\n \n"},
		{"application/x-ndjson; charset=UTF-8", strings.ReplaceAll(two, "\n", "\r\n") + "\r\n\r\n"},
	} {
		items := s.items(s.postBatch(batch.mediaType, batch.body))
		require.Equal(t, []string{"accepted", "accepted"}, kinds(items), batch)
		require.NotEqual(t, items[0].ID, items[1].ID)
		require.Contains(t, s.get("/push/"+items[1].ID).body, `"status":"PENDING"`)
		require.Equal(t, 2*(place+1), s.queued())
	}
	for _, mediaType := range []string{"", "text/plain", "application/x-ndjson; charset=latin1", "application/jsonl"} {
		require.Equal(t, http.StatusUnsupportedMediaType, s.postBatch(mediaType, array(push())).status, mediaType)
	}
	require.Equal(t, http.StatusUnsupportedMediaType, s.post(push(), "Content-Type", ndjsonMediaType).status)
}

func TestBatchesThatAreNone(t *testing.T) {
	t.Parallel()
	s := startService(t)
	for _, test := range []struct{ name, mediaType, body, detail string }{
		{"nothing", jsonType, "", "ends too early"},
		{"empty array", jsonType, "[]", "The batch is empty"},
		{"no line", ndjsonMediaType, "", "The batch is empty"},
		{"blank lines", ndjsonMediaType, "\n \r\n\n", "The batch is empty"},
		{"object", jsonType, push(), "must be one JSON array"},
		{"two objects", jsonType, push() + "\n" + push(), "must be one JSON array"},
		{"null", jsonType, "null", "must be one JSON array"},
		{"garbage after it", jsonType, array(push()) + "x", "something after"},
		{"second array", jsonType, array(push()) + array(push()), "something after"},
		{"cut in an item", jsonType, "[" + push() + "," + push()[:20], "not valid JSON"},
		{"cut after an item", jsonType, "[" + push(), "not valid JSON"},
		{"comma at the end", jsonType, "[" + push() + ",]", "not valid JSON"},
		{"no comma", jsonType, "[" + push() + push() + "]", "not valid JSON"},
		{"broken item", jsonType, "[" + push() + `,{"a":}]`, "not valid JSON"},
		{"deep nesting", jsonType, strings.Repeat("[", 20_000), "not valid JSON"},
	} {
		got := s.postBatch(test.mediaType, test.body)
		require.Equal(t, http.StatusBadRequest, got.status, test.name)
		require.Equal(t, "invalid-request", got.kind(), test.name)
		require.Contains(t, got.problem.Detail, test.detail, test.name)
	}
	s.postBatch(jsonType, array(push()), idempotencyKeyHeader, "key").requireMistakes(t, "Idempotency-Key has no meaning for a batch")
	require.Zero(t, s.queued())
}

func TestBatchIsBounded(t *testing.T) {
	t.Parallel()
	s := prepareService(t)
	s.options.MaxBatchBytes = 4 << 20
	s.start()
	for _, mediaType := range []string{jsonType, ndjsonMediaType} {
		body := repeated("{}", 10_001)
		if mediaType == ndjsonMediaType {
			body = strings.Repeat("{}\n", 10_001)
		}
		got := s.postBatch(mediaType, body)
		require.Equal(t, http.StatusRequestEntityTooLarge, got.status)
		require.Contains(t, got.problem.Detail, "more than 10000 pushes")
	}
	got := s.postBatch(jsonType, strings.Repeat(" ", 4<<20)+"[]")
	require.Equal(t, http.StatusRequestEntityTooLarge, got.status)
	require.Contains(t, got.problem.Detail, "4194304 bytes")
	require.Zero(t, s.queued())
}

// What is wrong with one item is said at its place, in the words of POST /push,
// and hinders no other.
func TestEachItemHasItsOwnMistakes(t *testing.T) {
	t.Parallel()
	s := startService(t)
	for _, test := range []struct{ name, item, says string }{
		{"null", "null", "must be one JSON object"},
		{"nested array", array(push()), "must be one JSON object"},
		{"number", "1", "must be one JSON object"},
		{"missing fields", "{}", "platform is missing"},
		{"unknown field", push("badge", "1"), "badge is not a field"},
		{"name twice", `{"message":"a",` + push()[1:], "message is there twice"},
		{"number as text", push("message", "1"), "message must be a text"},
		{"unknown platform", push("platform", `"WEB"`), "platform must be"},
		{"no expression", push("cronExpression", `"tomorrow"`), "cronExpression has one field"},
		{"never fires", push("cronExpression", `"0 0 0 30 2 ?"`), "cronExpression never fires"},
		{"unknown zone", push("cronExpression", `"0 0 9 * * ?"`, "timeZone", `"Mars"`), "timeZone must be a name of the IANA database such as Europe/Stockholm or UTC"},
		{"invalid UTF-8", push("message", "\"a\xffb\""), "not valid JSON"},
		{"lone surrogate", push("message", `"\ud83d"`), "not valid JSON"},
		{"U+0000", push("message", `"\u0000"`), "message must not contain U+0000"},
		{"empty key", push("idempotencyKey", `""`), "idempotencyKey must not be empty"},
		{"blank in the key", push("idempotencyKey", `"a b"`), "idempotencyKey must have 1 to 255 visible ASCII"},
		{"key of other letters", push("idempotencyKey", `"ключ"`), "idempotencyKey must have"},
		{"long key", push("idempotencyKey", `"`+strings.Repeat("k", 256)+`"`), "idempotencyKey must have"},
		{"key as a number", push("idempotencyKey", "7"), "idempotencyKey must be a text"},
		{"a byte too long", push("message", `"`+strings.Repeat("x", 16385-len(push("message", `""`)))+`"`), "longer than 16384 bytes"},
		{"1 MB", push("message", `"`+strings.Repeat("x", 1<<20)+`"`), "longer than 16384 bytes"},
	} {
		for _, batch := range [][2]string{
			{jsonType, array(push(), test.item, push("idempotencyKey", "null"))},
			{ndjsonMediaType, push() + "\n" + test.item + "\n" + push("idempotencyKey", "null")},
		} {
			before := s.queued()
			items := s.items(s.postBatch(batch[0], batch[1]))
			require.Len(t, items, 3)
			require.Equal(t, "accepted", items[0].kind(), test.name)
			require.Equal(t, "accepted", items[2].kind(), test.name)
			require.NotNil(t, items[1].Error, test.name)
			single := answer{problem: *items[1].Error}
			require.Contains(t, strings.Join(append(single.reasons(), items[1].Error.Detail), "\n"), test.says, test.name)
			require.Equal(t, before+2, s.queued(), test.name)

			if !strings.Contains(test.item, "idempotencyKey") && single.problem.Status == http.StatusBadRequest {
				require.Equal(t, s.post(test.item).problem, single.problem, "as POST /push says it")
			}
		}
	}
}

func TestABrokenLineIsItsOwnMistake(t *testing.T) {
	t.Parallel()
	s := startService(t)
	lines := []string{push(), push()[:30], "\u00a0" + push(), push() + push(), "}", push()}
	for _, lineBreak := range []string{"\n", "\r\n"} {
		items := s.items(s.postBatch(ndjsonMediaType, strings.Join(lines, lineBreak)))
		require.Equal(t, []string{"accepted", "invalid-request", "invalid-request", "invalid-request", "invalid-request", "accepted"}, kinds(items))
	}
	require.Equal(t, 4, s.queued())
}

func TestIdempotencyKeysInABatch(t *testing.T) {
	t.Parallel()
	s := startService(t)
	first := s.accept(push(), idempotencyKeyHeader, "posted")
	keyed := func(key, message string) string {
		return push("idempotencyKey", fmt.Sprintf("%q", key), "message", fmt.Sprintf("%q", message))
	}
	body := array(keyed("a", "1"), keyed("a", "1"), keyed("a", "2"), keyed("b", "1"), keyed("posted", canaryMessage), keyed("posted", "2"))
	items := s.items(s.postBatch(jsonType, body))
	require.Equal(t, []string{"accepted", "replayed", "idempotency-key-reused", "accepted", "replayed", "idempotency-key-reused"}, kinds(items))
	require.Equal(t, http.StatusConflict, items[2].Error.Status)
	require.Equal(t, items[0].ID, items[1].ID)
	require.Equal(t, first, items[4].ID)
	require.Equal(t, 3, s.queued())

	again := s.items(s.postBatch(ndjsonMediaType, strings.ReplaceAll(body[1:len(body)-1], "},{", "}\n{")))
	require.Equal(t, []string{"replayed", "replayed", "idempotency-key-reused", "replayed", "replayed", "idempotency-key-reused"}, kinds(again))
	require.Equal(t, items[3].ID, again[3].ID)
	require.Equal(t, 3, s.queued())
	require.Equal(t, items[3].ID, s.accept(push("message", `"1"`), idempotencyKeyHeader, "b"), "the header means the same")
}

// Many items of one key are under way at a time.
func TestTheFirstItemOfAKeyWins(t *testing.T) {
	t.Parallel()
	s := startService(t)
	var items []string
	for number := range 3000 {
		items = append(items, push("idempotencyKey", fmt.Sprintf(`"key-%d"`, number/10), "message", fmt.Sprintf(`"%d"`, number%10/2)))
	}
	for place, item := range s.items(s.postBatch(jsonType, array(items...))) {
		want := "idempotency-key-reused"
		if place%10 == 0 {
			want = "accepted"
		} else if place%10 == 1 {
			want = "replayed"
		}
		require.Equal(t, want, item.kind(), place)
	}
	require.Equal(t, 300, s.queued())
}

func TestKeysOfABatchBelongToTheCaller(t *testing.T) {
	t.Parallel()
	s := prepareService(t)
	s.options.APIKeys = map[string]string{"shop": canaryAPIKey + "-1", "bank": canaryAPIKey + "-2"}
	s.start()
	requireUnauthorized(t, s.postBatch(jsonType, array(push())))
	body := array(push("idempotencyKey", `"key"`))
	shop := s.items(s.postBatch(jsonType, body, "Authorization", "Bearer "+canaryAPIKey+"-1"))
	bank := s.items(s.postBatch(jsonType, body, "Authorization", "Bearer "+canaryAPIKey+"-2"))
	require.NotEqual(t, shop[0].ID, bank[0].ID)
	require.Equal(t, 2, s.queued())
}

// Not parallel, since there is a limit to the time of a batch.
func TestTenThousandItemsOfWhichTenAreBad(t *testing.T) {
	s := startService(t)
	var items []string
	for number := range 10_000 {
		item := push("message", fmt.Sprintf(`"number %d"`, number))
		switch {
		case number%1000 == 7:
			item = push("badge", "1")
		case number%3 == 0:
			item = push("idempotencyKey", fmt.Sprintf(`"key-%d"`, number))
		}
		items = append(items, item)
	}
	body := array(items...)
	s.http.Timeout = 5 * time.Minute
	got := s.items(s.postBatch(jsonType, body))
	require.Len(t, got, 10_000)
	seen := make(map[string]bool)
	for place, item := range got {
		if place%1000 == 7 {
			require.Equal(t, "invalid-request", item.kind())
			continue
		}
		require.Equal(t, "accepted", item.kind())
		seen[item.ID] = true
	}
	require.Len(t, seen, 9990)
	require.Equal(t, 9990, s.queued())
	require.Contains(t, s.get("/push/"+got[9998].ID).body, "number 9998")
}

func rawBatch(body string, header ...string) string {
	return fmt.Sprintf("POST /push/batch HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\nContent-Length: %d\r\n%s\r\n%s",
		len(body), strings.Join(header, "\r\n"), body)
}

func TestACutUploadOfABatchAcceptsNothing(t *testing.T) {
	t.Parallel()
	s := startService(t)
	lines := strings.Repeat(push()+"\n", 50)
	whole := rawBatch(lines)
	for _, text := range []string{
		whole[:len(whole)-1],
		whole[:len(whole)/2],
		"POST /push/batch HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n" +
			fmt.Sprintf("%x\r\n%s\r\n", len(lines), lines), // without the last chunk
	} {
		require.Equal(t, http.StatusBadRequest, s.cutShort(text).status)
	}
	require.Zero(t, s.queued())
}

// The answer is lost: everything has been accepted, and a repeat with the same
// keys sends nothing twice.
func TestACallerWhoIsGoneAfterTheUpload(t *testing.T) {
	t.Parallel()
	redis := testenv.StartRedis(t)
	proxy := testenv.NewProxy(t, redis.Addr())
	s := prepareServiceBehind(t, redis, proxy.URL()).start()
	s.accept(push(), idempotencyKeyHeader, "first") // scripts are loaded
	proxy.SetLatency(100 * time.Millisecond)

	const count = 1000
	var lines strings.Builder
	for number := range count {
		lines.WriteString(push("idempotencyKey", fmt.Sprintf(`"key-%d"`, number)) + "\n")
	}
	connection := s.dial()
	_, err := io.WriteString(connection, rawBatch(lines.String()))
	require.NoError(t, err)
	require.NoError(t, connection.Close())
	testenv.Eventually(t, 10*time.Second, "all pushes are queued", func() bool { return s.queued() == 1+count })

	proxy.SetLatency(0)
	for _, item := range s.items(s.postBatch(ndjsonMediaType, lines.String())) {
		require.Equal(t, "replayed", item.kind())
	}
	require.Equal(t, 1+count, s.queued())
}

// A batch that goes on coming has longer than other requests, one that stops has not.
func TestASlowUploadOfABatch(t *testing.T) {
	t.Parallel()
	s := prepareService(t)
	s.options.APIKeys = map[string]string{"shop": canaryAPIKey}
	s.readTimeout = 2 * time.Second
	s.start()
	s.server.transferGrace = 3 * time.Second
	key := "Authorization: Bearer " + canaryAPIKey + "\r\n"
	padding := strings.Repeat(" ", 2*firstPiece) + "\n" // blank lines are no pushes
	trickle := func(parts int, header ...string) answer {
		connection := s.dial()
		request := rawBatch(strings.Repeat(push()+"\n"+padding, 4), header...)
		whole := strings.SplitAfter(request, padding)
		for place, part := range whole[:parts] {
			if _, err := io.WriteString(connection, part); err != nil {
				break
			}
			if place > 0 {
				time.Sleep(time.Second) // a slow caller
			}
		}
		return s.answerOn(connection, request)
	}
	require.Len(t, s.items(trickle(5, key)), 4, "longer than other requests may take")
	require.Equal(t, http.StatusRequestTimeout, trickle(2, key).status, "nothing comes any more")
	requireUnauthorized(t, trickle(5))
	require.Equal(t, 4, s.queued())
	testenv.Eventually(t, 10*time.Second, "its slot to be free", func() bool { return len(s.server.batches.all) == 0 })
}

func TestABatchWithoutRedis(t *testing.T) {
	t.Parallel()
	for kind, stop := range map[string]func(*testService){
		"unavailable":     func(s *testService) { s.redis.Stop() },
		"outcome-unknown": func(s *testService) { s.redis.Freeze() },
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := startService(t)
			s.accept(push())
			stop(s)
			for _, item := range []string{push(), push("idempotencyKey", `"key"`)} {
				started := time.Now()
				got := s.postBatch(ndjsonMediaType, "broken\n"+strings.Repeat(item+"\n", 5000))
				require.Equal(t, http.StatusServiceUnavailable, got.status)
				require.Equal(t, kind, got.kind())
				require.Equal(t, "2", got.header.Get("Retry-After"))
				require.Less(t, time.Since(started), time.Minute) // 3 s when nothing else runs
			}
		})
	}
}

// Redis goes away half-way: what is said of each item is true.
func TestRedisGoesAwayDuringABatch(t *testing.T) {
	t.Parallel()
	for name, away := range map[string]func(*testService, *testenv.Proxy){
		"refuses": func(_ *testService, proxy *testenv.Proxy) { proxy.Refuse(true) },
		"silent":  func(_ *testService, proxy *testenv.Proxy) { proxy.Blackhole(true) },
		"full": func(s *testService, _ *testenv.Proxy) {
			_ = s.client.ConfigSet(context.Background(), "maxmemory", "1").Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			redis := testenv.StartRedis(t)
			proxy := testenv.NewProxy(t, redis.Addr())
			s := prepareServiceBehind(t, redis, proxy.URL())
			s.options.Intake = &breakingIntake{Intake: s.options.Intake, after: 1000, then: func() { away(s, proxy) }}
			s.start()
			items := s.items(s.postBatch(jsonType, repeated(push(), 8000)))
			require.Len(t, items, 8000)
			count := make(map[string]int)
			for place, item := range items {
				if count[item.kind()]++; item.Error != nil {
					require.Equal(t, http.StatusServiceUnavailable, item.Error.Status, place)
				}
			}
			require.GreaterOrEqual(t, count["accepted"], 700)
			refused := "unavailable"
			if name == "full" {
				refused = "store-full"
			}
			require.Equal(t, 8000, count["accepted"]+count[refused]+count["outcome-unknown"], count)
			require.Positive(t, count[refused], "%v", count)
			require.Equal(t, 1, strings.Count(s.log.String(), "batch not accepted in full"))

			require.GreaterOrEqual(t, s.queued(), count["accepted"], "%v", count)
			proxy.Refuse(false)
			proxy.Blackhole(false)
			s.closeIntake()
			require.LessOrEqual(t, s.queued(), count["accepted"]+count["outcome-unknown"], "%v", count)
		})
	}
}

// breakingIntake does something once it has been called so often.
type breakingIntake struct {
	Intake
	after int64
	then  func()
	calls atomic.Int64
}

func (i *breakingIntake) Accept(ctx context.Context, push tasks.Push, keyed bool) (bool, error) {
	if i.calls.Add(1) == i.after {
		i.then()
	}
	return i.Intake.Accept(ctx, push, keyed)
}

// faultyIntake has a fault of its own for some pushes.
type faultyIntake struct{ Intake }

func (i faultyIntake) Accept(ctx context.Context, push tasks.Push, keyed bool) (bool, error) {
	switch push.Message {
	case "panic":
		panic("inner workings")
	case "error":
		return false, errors.New("inner workings")
	}
	return i.Intake.Accept(ctx, push, keyed)
}

func TestAFaultOfOneItemIsItsOwn(t *testing.T) {
	t.Parallel()
	s := prepareService(t)
	s.options.Intake = faultyIntake{s.options.Intake}
	s.start()
	got := s.postBatch(jsonType, array(push(), push("message", `"panic"`), push("message", `"error"`), push()))
	require.Equal(t, []string{"accepted", "internal", "internal", "accepted"}, kinds(s.items(got)))
	require.NotContains(t, got.body, "inner workings")
	require.Equal(t, 2, strings.Count(s.log.String(), `error="panic: inner workings"`)+strings.Count(s.log.String(), `error="inner workings"`))
	require.Contains(t, s.log.String(), "faultyIntake", "the stack is logged")
}

func TestBatchesAtATimeAreBounded(t *testing.T) {
	t.Parallel()
	s := startService(t)
	for range maxBatches {
		s.server.batches.all <- struct{}{}
	}
	got := s.postBatch(jsonType, array(push()))
	require.Equal(t, http.StatusServiceUnavailable, got.status)
	require.Equal(t, "unavailable", got.kind())
	require.Contains(t, got.problem.Detail, "8 batches are under way here already")
	require.Equal(t, "2", got.header.Get("Retry-After"))
	require.Zero(t, s.queued())
	<-s.server.batches.all
	require.Len(t, s.items(s.postBatch(jsonType, array(push()))), 1)
	require.Len(t, s.items(s.postBatch(jsonType, array(push()))), 1, "the place is free again")
}

func TestAFaultBeforeTheFirstItem(t *testing.T) {
	t.Parallel()
	s := startService(t)
	close(s.server.batches.all) // whoever enters panics
	require.Equal(t, http.StatusInternalServerError, s.postBatch(jsonType, array(push())).status)
	require.Zero(t, s.queued())
}

func TestUnmappedPrototypesOfABatchAreLogged(t *testing.T) {
	t.Parallel()
	s := startService(t)
	s.items(s.postBatch(jsonType, array(push(), push("messagePrototypeKey", `"Later"`))))
	require.Contains(t, s.log.String(), "messagePrototypeKey=Later")
}

// A batch keeps the answers to all its items until the last one is there.
func TestAnAnswerKeepsNoMoreMistakesThanItNames(t *testing.T) {
	t.Parallel()
	fields := make([]string, 2000)
	for number := range fields {
		fields[number] = fmt.Sprintf(`"f%d":1`, number)
	}
	_, err := decodePush([]byte("{" + strings.Join(fields, ",") + "}"))
	named := problemFor(err).Errors
	require.Len(t, named, maxMistakes)
	require.Less(t, cap(named), 2*maxMistakes)
}

// A panic before the last item leaves no goroutine behind.
func TestABatchThatPanicsEndsItsWorkers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := batch{results: make([]batchResult, 3)} // has no server
		require.Panics(t, func() { b.accept(t.Context(), make([][]byte, 3)) })
	})
}
