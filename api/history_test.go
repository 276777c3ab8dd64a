package api

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"pushq/internal/history"
	"pushq/internal/testenv"
	"pushq/tasks"
)

// startServiceWithHistory has three pushes of the past, of one user, a minute apart.
func startServiceWithHistory(t *testing.T) (*testService, *testenv.Postgres) {
	t.Helper()
	server := testenv.StartPostgres(t)
	store, err := history.Open(t.Context(), server.URL(), slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	t.Cleanup(store.Close)
	var rows []history.Row
	for number := range 3 {
		millis, createdAt := int64(812), tasks.MillisOf(time.Date(2026, time.November, 27, 9, number, 0, 0, time.UTC))
		record, err := json.Marshal(tasks.Record{
			Push: tasks.Push{Platform: tasks.IOS, MessagePrototypeKey: "Hello", PushKey: canaryPushKey, Message: canaryMessage, CreatedAt: createdAt},
			Attempts: []tasks.Attempt{{Token: "a", Status: tasks.AttemptError, StartedAt: createdAt, Millis: &millis,
				ErrorType: tasks.ErrorSwrve, ErrorCode: 400, ErrorMessage: "bad key"}},
			End: tasks.Failed, EndedAt: createdAt + 900,
		})
		require.NoError(t, err)
		rows = append(rows, history.Row{Channel: "swrve", PushID: fmt.Sprintf("01JDQ1M2K3N4P5Q6R7S8T9V0W%d", number), Record: record})
	}
	require.NoError(t, store.Write(t.Context(), rows))
	s := prepareService(t)
	s.options.History = store
	return s.start(), server
}

// Searches that wait for a database that hangs keep nobody from Redis.
func TestSearchesThatHangHoldUpNoList(t *testing.T) {
	t.Parallel()
	s, server := startServiceWithHistory(t)
	database, err := pgx.Connect(t.Context(), server.URL())
	require.NoError(t, err)
	defer func() { require.NoError(t, database.Close(context.WithoutCancel(t.Context()))) }()
	locking, err := database.Begin(t.Context())
	require.NoError(t, err)
	_, err = locking.Exec(t.Context(), "LOCK TABLE push_notifications IN ACCESS EXCLUSIVE MODE")
	require.NoError(t, err)

	hanging, stop := context.WithCancel(t.Context())
	var searches sync.WaitGroup
	defer searches.Wait()
	defer stop()
	for range maxLists {
		searches.Go(func() {
			for hanging.Err() == nil { // each is given up after a while
				request, err := http.NewRequestWithContext(hanging, http.MethodGet, "http://"+s.address+"/history", nil)
				if err != nil {
					t.Error(err)
					return
				}
				if response, err := http.DefaultClient.Do(request); err == nil {
					_ = response.Body.Close()
				}
			}
		})
	}
	testenv.Eventually(t, time.Minute, "as many searches as may be under way", func() bool { return len(s.server.searches.all) == maxSearches })
	got := s.get("/push?status=FAILED")
	require.Equal(t, http.StatusOK, got.status, got.body)
}

type historyDocument struct {
	Items []struct {
		Channel, EndedAt string
		Push             struct{ ID, Status, PushKey string }
	}
	Next string
}

func TestHistory(t *testing.T) {
	t.Parallel()
	s, server := startServiceWithHistory(t)
	got := s.get("/history?user=" + canaryPushKey + "&status=FAILED&since=2026-11-27T10:01:00%2B01:00&until=2026-11-27T09:02:00Z")
	require.Equal(t, http.StatusOK, got.status, got.body)
	require.JSONEq(t, `{"items":[{"channel":"swrve","endedAt":"2026-11-27T09:01:00.900Z","push":{"id":"01JDQ1M2K3N4P5Q6R7S8T9V0W1","status":"FAILED",
		"platform":"IOS","messagePrototypeKey":"Hello","pushKey":"canary-push-key","message":"canary-message","cronExpression":null,"timeZone":null,"traceId":null,
		"createdAt":"2026-11-27T09:01:00.000Z","nextAttemptAt":null,"attempts":[{"id":1,"status":"ERROR","startedAt":"2026-11-27T09:01:00.000Z",
		"millis":812,"errorType":"SWRVE","errorCode":400,"errorMessage":"bad key","stackTrace":null,"maybeDelivered":false}]}}]}`, got.body)
	for _, nothing := range []string{"user=nobody", "user=%00", "traceId=x", "templateCode=x", "status=SENT", "until=2026-11-27T09:00:00Z"} {
		require.Equal(t, `{"items":[]}`+"\n", s.get("/history?"+nothing).body, nothing)
	}
	require.Equal(t, http.StatusOK, s.send(http.MethodHead, "/history", nil).status)

	var ids []string
	cursor := ""
	for range 3 {
		got := s.get("/history?limit=2&cursor=" + url.QueryEscape(cursor))
		require.Equal(t, http.StatusOK, got.status, got.body)
		var page historyDocument
		require.NoError(t, json.Unmarshal([]byte(got.body), &page))
		for _, item := range page.Items {
			ids = append(ids, item.Push.ID[25:])
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	require.Equal(t, []string{"2", "1", "0"}, ids)

	server.Stop()
	got = s.get("/history")
	require.Equal(t, http.StatusServiceUnavailable, got.status)
	require.Equal(t, "unavailable", got.kind())
	require.NotEmpty(t, got.header.Get("Retry-After"))
	require.Equal(t, http.StatusNotFound, s.get("/push/01JDQ1M2K3N4P5Q6R7S8T9V0W1").status, "what is in Redis can be read nevertheless")
}

func TestNoHistory(t *testing.T) {
	t.Parallel()
	s := startService(t)
	got := s.get("/history?user=x")
	require.Equal(t, http.StatusNotFound, got.status)
	require.Contains(t, got.problem.Detail, "history.postgresUrl")
}

// unasked is a history that must not be asked.
type unasked struct{ err error }

func (h unasked) Search(context.Context, history.Query) (history.Page, error) {
	return history.Page{}, h.err
}

func TestBadParametersOfHistory(t *testing.T) {
	t.Parallel()
	s := prepareService(t)
	s.options.History = unasked{errors.New("asked")}
	s.start()
	for query, mistakes := range map[string][]string{
		"?user=":                     {"user is empty"},
		"?user":                      {"user is empty"},
		"?traceId=&templateCode=":    {"templateCode is empty", "traceId is empty"},
		"?user=a&user=b":             {"user is there twice"},
		"?status=":                   {"status must be one of [RETRY SENT"},
		"?status=PENDING":            {"status must be one of"},
		"?status=sent":               {"status must be one of"},
		"?since=":                    {"since must be a time such as"},
		"?since=2h":                  {"since must be a time"},
		"?since=2026-11-27":          {"since must be a time"},
		"?until=2026-13-27T09:00:00": {"until must be a time"},
		"?since=99999999999999":      {"since must be a time"},
		"?limit=0":                   {"limit must be a number from 1 to 200"},
		"?limit=201":                 {"limit must be a number from 1 to 200"},
		"?limit=x":                   {"limit must be a number from 1 to 200"},
		"?limit=":                    {"limit must be a number from 1 to 200"},
		"?User=a":                    {"User is not a parameter"},
		"?user_id=a&limit=0":         {"limit must be", "user_id is not"},
		"?user=%zz":                  {"query"},
		"?user=a;b":                  {"query"},
	} {
		t.Run(query, func(t *testing.T) { s.get("/history"+query).requireMistakes(t, mistakes...) })
	}
	got := s.get("/history")
	require.Equal(t, http.StatusInternalServerError, got.status)
	require.NotContains(t, got.body, "asked")
}

func TestForgedCursorOfHistory(t *testing.T) {
	t.Parallel()
	s := prepareService(t)
	store, err := history.Open(t.Context(), "postgres://127.0.0.1:1/none", slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	t.Cleanup(store.Close)
	s.options.History = store
	s.start()
	for _, cursor := range []string{"x", "%00", base64.RawURLEncoding.EncodeToString([]byte(`{"createdAt":1,"id":"a","more":1}`)), strings.Repeat("A", 4000)} {
		s.get("/history?cursor="+cursor).requireMistakes(t, "cursor is not one that a search has returned")
	}
}

// A + that is not encoded has become a blank by the time it is read; a time before 1970
// would be taken for none, and find everything.
func TestTimesOfASearch(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"2026-11-27T10:00:00 01:00": "2026-11-27T09:00:00Z", "2026-11-27T10:00:00+01:00": "2026-11-27T09:00:00Z", "2026-11-27T09:00:00Z": "2026-11-27T09:00:00Z",
	} {
		got, problem := moment(text)
		require.Empty(t, problem, text)
		require.Equal(t, want, got.UTC().Format(time.RFC3339))
	}
	for _, text := range []string{"0001-01-01T00:00:00Z", "1969-12-31T23:59:59Z", "1970-01-01T00:00:00Z", "2026-11-27 10:00:00Z", "2026-11-27T10:00:00  01:00", ""} {
		_, problem := moment(text)
		require.NotEmpty(t, problem, text)
	}
}
