package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/testenv"
	"pushq/tasks"
)

type bulkAnswer struct {
	Matched int `json:"matched"`
	Done    int `json:"done"`
	Skipped *struct {
		Closed int `json:"closed"`
		Moved  int `json:"moved"`
		Failed int `json:"failed"`
	} `json:"skipped"`
	Next string `json:"next"`
}

func (s *testService) postBulk(action, body string, header ...string) answer {
	s.t.Helper()
	return s.send(http.MethodPost, "/push/"+action, strings.NewReader(body), append([]string{"Content-Type", jsonType}, header...)...)
}

func (s *testService) bulk(action, body string, header ...string) bulkAnswer {
	s.t.Helper()
	got := s.postBulk(action, body, header...)
	require.Equal(s.t, http.StatusOK, got.status, got.body)
	require.Equal(s.t, "application/json", got.header.Get("Content-Type"))
	var sum bulkAnswer
	decoder := json.NewDecoder(strings.NewReader(got.body))
	decoder.DisallowUnknownFields()
	require.NoError(s.t, decoder.Decode(&sum))
	return sum
}

func TestBulkRetryAndCancel(t *testing.T) {
	t.Parallel()
	s := startService(t)
	failed := []string{s.ended(tasks.Failed), s.ended(tasks.Failed), s.ended(tasks.Failed)}
	givenUp := s.ended(tasks.GivenUp)
	first := s.bulk("retry", `{"status":"FAILED","limit":2}`)
	require.Equal(t, 2, first.Done)
	require.Equal(t, 2, first.Matched)
	require.NotEmpty(t, first.Next)
	require.Equal(t, bulkAnswer{Matched: 1, Done: 1}, s.bulk("retry", fmt.Sprintf(`{"status":"FAILED","cursor":%q}`, first.Next)))
	for _, id := range failed {
		require.Equal(t, "PENDING", s.state(id))
	}
	require.Equal(t, "GIVEN_UP", s.state(givenUp))

	require.Equal(t, bulkAnswer{}, s.bulk("cancel", `{"status":"PENDING","messagePrototypeKey":"Other"}`))
	require.Equal(t, bulkAnswer{}, s.bulk("cancel", `{"status":"PENDING","errorType":"SWRVE"}`))
	require.Equal(t, bulkAnswer{Matched: 3, Done: 3}, s.bulk("cancel", `{"status":"PENDING","since":null,"errorType":null,"errorCode":null,"messagePrototypeKey":null,"cursor":null,"limit":null}`))
	for _, id := range failed {
		require.Equal(t, "CANCELLED", s.state(id))
	}
	require.Zero(t, s.queued())

	later := s.accept(push("cronExpression", `"0 0 9 1 1 ?"`))
	closed := s.bulk("retry", `{"status":"SCHEDULED"}`)
	require.Equal(t, 1, closed.Matched)
	require.Zero(t, closed.Done)
	require.Equal(t, 1, closed.Skipped.Closed)
	require.Equal(t, bulkAnswer{Matched: 1, Done: 1}, s.bulk("cancel", `{"status":"SCHEDULED"}`))
	require.Equal(t, "CANCELLED", s.state(later))

	now := time.Now()
	require.Equal(t, bulkAnswer{}, s.bulk("retry", fmt.Sprintf(`{"status":"CANCELLED","since":%q}`, now.Add(time.Hour).Format(time.RFC3339))))
	require.Equal(t, bulkAnswer{Matched: 4, Done: 4}, s.bulk("retry", fmt.Sprintf(`{"status":"CANCELLED","since":%q}`, now.Add(-time.Hour).Format(time.RFC3339Nano))))
	require.Equal(t, "SCHEDULED", s.state(later))
}

func TestBulkDryRun(t *testing.T) {
	t.Parallel()
	s := startService(t)
	failed := s.ended(tasks.Failed)
	got := s.postBulk("retry", `{"status":"FAILED","dryRun":true}`)
	require.JSONEq(t, `{"dryRun":true,"matched":1,"done":1}`, got.body)
	require.Equal(t, "FAILED", s.state(failed))
	require.Contains(t, s.log.String(), "msg=operator action=retry status=FAILED dryRun=true matched=1 done=1")
	require.JSONEq(t, `{"matched":1,"done":1}`, s.postBulk("retry", `{"status":"FAILED","dryRun":false}`).body)
	require.JSONEq(t, `{"dryRun":true,"matched":1,"done":1}`, s.postBulk("cancel", `{"status":"PENDING","dryRun":true}`).body)
	require.JSONEq(t, `{"matched":1,"done":1}`, s.postBulk("cancel", `{"status":"PENDING","dryRun":null}`).body)
	s.postBulk("retry", `{"status":"FAILED","dryRun":"true"}`).requireMistakes(t, "dryRun must be true or false")
}

// Whoever asks is told that Redis is full, for one push and for many.
func TestAFullRedisIsSaidToOperators(t *testing.T) {
	t.Parallel()
	s := startService(t)
	failed := s.ended(tasks.Failed)
	require.NoError(t, s.client.ConfigSet(t.Context(), "maxmemory", "1").Err())
	for _, got := range []answer{s.postBulk("retry", `{"status":"FAILED"}`), s.retry(failed)} {
		require.Equal(t, http.StatusServiceUnavailable, got.status, got.body)
		require.Equal(t, "store-full", got.kind())
		require.Contains(t, got.problem.Detail, "The queue has no room to do this")
		require.Equal(t, "10", got.header.Get("Retry-After"))
	}
	require.NoError(t, s.client.ConfigSet(t.Context(), "maxmemory", "0").Err())
	require.NoError(t, s.client.ConfigSet(t.Context(), "min-replicas-to-write", "1").Err())
	got := s.postBulk("retry", `{"status":"FAILED"}`)
	require.Equal(t, "unavailable", got.kind())
	require.Contains(t, got.problem.Detail, "takes no changes now")
}

func TestBulkMistakes(t *testing.T) {
	t.Parallel()
	s := startService(t)
	s.ended(tasks.Failed)
	s.ended(tasks.Failed)
	next := s.bulk("retry", `{"status":"FAILED","limit":1}`).Next
	for _, test := range []struct {
		action, body string
		mistakes     []string
	}{
		{"retry", `{}`, []string{"status is missing"}},
		{"retry", `{"status":null}`, []string{"status must be a text"}},
		{"retry", `{"status":"failed"}`, []string{"status must be one of [FAILED GIVEN_UP CANCELLED RETRY SCHEDULED]"}},
		{"retry", `{"status":"PENDING"}`, []string{"status must be one of"}},
		{"retry", `{"status":"SENT"}`, []string{"status must be one of"}},
		{"cancel", `{"status":"FAILED"}`, []string{"status must be one of [SCHEDULED PENDING RETRY]"}},
		{"cancel", `{"status":"IN_MEMORY"}`, []string{"status must be one of"}},
		{"retry", `{"status":"FAILED","since":"2h"}`, []string{"since must be a time such as"}},
		{"retry", `{"status":"FAILED","since":"2026-11-27"}`, []string{"since must be a time"}},
		{"retry", `{"status":"FAILED","since":1}`, []string{"since must be a text"}},
		{"retry", `{"status":"FAILED","errorType":"swrve"}`, []string{"errorType must be one of"}},
		{"retry", `{"status":"FAILED","errorCode":"503"}`, []string{"errorCode must be a number"}},
		{"retry", `{"status":"FAILED","errorCode":50.5}`, []string{"errorCode must be a number"}},
		{"retry", `{"status":"FAILED","errorCode":0}`, []string{"errorCode must be a number"}},
		{"retry", `{"status":"FAILED","limit":0}`, []string{"limit must be a number from 1 to 1000"}},
		{"retry", `{"status":"FAILED","limit":1001}`, []string{"limit must be a number"}},
		{"retry", `{"status":"FAILED","messagePrototypeKey":""}`, []string{"messagePrototypeKey must not be empty"}},
		{"retry", `{"status":"FAILED","prototype":"Hello","until":"x"}`, []string{"prototype is not a field", "until is not a field"}},
		{"retry", `{"status":"FAILED","status":"GIVEN_UP"}`, []string{"status is there twice"}},
		{"retry", `{"status":"FAILED","cursor":"garbage"}`, []string{"cursor is not one that"}},
		{"retry", `{"status":"FAILED","cursor":""}`, []string{"cursor must not be empty"}},
		{"retry", fmt.Sprintf(`{"status":"GIVEN_UP","cursor":%q}`, next), []string{"cursor is not one that"}},
		{"retry", fmt.Sprintf(`{"status":"FAILED","errorCode":503,"cursor":%q}`, next), []string{"cursor is not one that"}},
		{"cancel", fmt.Sprintf(`{"status":"RETRY","cursor":%q}`, next), []string{"cursor is not one that"}},
	} {
		s.postBulk(test.action, test.body).requireMistakes(t, test.mistakes...)
	}
	for _, body := range []string{"", "[]", "null", `{"status":"FAILED"}x`, `{"status":"FAILED"`} {
		require.Equal(t, "invalid-request", s.postBulk("retry", body).kind(), body)
	}
	for _, action := range []string{"retry", "cancel"} {
		require.Equal(t, http.StatusUnsupportedMediaType, s.postBulk(action, "{}", "Content-Type", "text/plain").status)
		require.Equal(t, http.StatusRequestEntityTooLarge, s.postBulk(action, strings.Repeat(" ", 17_000)).status)
	}
	require.Equal(t, http.StatusMethodNotAllowed, s.send(http.MethodPut, "/push/retry", nil).status)
	require.Equal(t, 1, s.queued(), "none of them has done anything")
}

func TestBulkIsLogged(t *testing.T) {
	t.Parallel()
	s := startServiceWithKeys(t)
	requireUnauthorized(t, s.postBulk("retry", `{"status":"FAILED"}`))
	requireUnauthorized(t, s.postBulk("cancel", `{"status":"PENDING"}`))
	key := []string{"Authorization", "Bearer " + shopKey}
	s.ended(tasks.Failed)
	s.bulk("retry", `{"status":"FAILED","since":"2026-11-27T10:00:00+01:00"}`, key...)
	s.bulk("cancel", `{"status":"PENDING","errorType":"SWRVE","errorCode":503,"messagePrototypeKey":"Hello"}`, key...)
	testenv.Eventually(t, 5*time.Second, "the lines", func() bool { return strings.Count(s.log.String(), "msg=operator") == 2 })
	require.Contains(t, s.log.String(), "msg=operator action=retry status=FAILED since=2026-11-27T09:00:00.000Z matched=1 done=1 caller=secret-name-shop outcome=done")
	require.Contains(t, s.log.String(), "msg=operator action=cancel status=PENDING errorType=SWRVE errorCode=503 messagePrototypeKey=Hello matched=0 done=0 caller=secret-name-shop outcome=done")
}

func TestBulkWithoutRedis(t *testing.T) {
	t.Parallel()
	s := startService(t)
	s.ended(tasks.Failed)
	s.redis.Stop()
	for action, body := range map[string]string{"retry": `{"status":"FAILED"}`, "cancel": `{"status":"PENDING"}`} {
		got := s.postBulk(action, body)
		require.Equal(t, http.StatusServiceUnavailable, got.status, got.body)
		require.Equal(t, "unavailable", got.kind())
		require.Contains(t, s.log.String(), "msg=operator action="+action)
	}
}

// faultyOperator could not act on all.
type faultyOperator struct{ refusingOperator }

func (faultyOperator) RetryAll(context.Context, tasks.Channel, tasks.Filter, int, string) (tasks.Bulk, error) {
	return tasks.Bulk{Matched: 9, Done: 3, Closed: 3, Moved: 2, Failed: 1, Fault: errors.New("inner workings"), Next: "next"}, nil
}

func (o faultyOperator) CancelAll(context.Context, tasks.Channel, tasks.Filter, int, string) (tasks.Bulk, error) {
	return tasks.Bulk{Matched: 5, Done: 4, Moved: 1}, o.err
}

func TestBulkSaysWhyNotAllAreDone(t *testing.T) {
	t.Parallel()
	s := prepareService(t)
	s.options.Operator = faultyOperator{refusingOperator{fmt.Errorf("%w: inner workings", tasks.ErrIncomplete)}}
	s.start()
	got := s.postBulk("retry", `{"status":"FAILED"}`)
	require.JSONEq(t, `{"matched":9,"done":3,"skipped":{"closed":3,"moved":2,"failed":1},"next":"next"}`, got.body)
	require.Contains(t, s.log.String(), `outcome="inner workings"`)
	got = s.postBulk("cancel", `{"status":"PENDING"}`)
	require.Equal(t, http.StatusServiceUnavailable, got.status)
	require.Equal(t, "outcome-unknown", got.kind())
	require.NotContains(t, got.body, "inner workings")
	require.Contains(t, s.log.String(), "action=cancel status=PENDING matched=5 done=4", "what was done before it failed")
}

func TestBulkThatIsBroken(t *testing.T) {
	t.Parallel()
	s := prepareService(t)
	s.readTimeout = 300 * time.Millisecond
	s.options.Operator = refusingOperator{errors.New("inner workings")}
	s.start()
	for action, body := range map[string]string{"retry": `{"status":"FAILED"}`, "cancel": `{"status":"PENDING"}`} {
		got := s.postBulk(action, body)
		require.Equal(t, http.StatusInternalServerError, got.status)
		require.NotContains(t, got.body, "inner workings")
		head := "POST /push/" + action + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n"
		require.Equal(t, http.StatusRequestTimeout, s.exchange(head+body).status)
	}
}
