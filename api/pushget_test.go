package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	"pushq/tasks"
)

// compact removes the white space that makes a wanted JSON text readable.
func compact(t *testing.T, text string) string {
	t.Helper()
	var buffer bytes.Buffer
	require.NoError(t, json.Compact(&buffer, []byte(text)))
	return buffer.String() + "\n"
}

var shownTime = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`)

// takeTime checks the form of a time in body and replaces it by "TIME".
func takeTime(t *testing.T, body, field string) (at time.Time, rest string) {
	t.Helper()
	parts := regexp.MustCompile(`"` + field + `":"([^"]*)"`).FindStringSubmatch(body)
	require.NotNil(t, parts, "no %s in %s", field, body)
	require.Regexp(t, shownTime, parts[1])
	at, err := time.Parse(time.RFC3339, parts[1])
	require.NoError(t, err)
	return at, strings.Replace(body, `"`+parts[1]+`"`, `"TIME"`, 1)
}

func TestGetPendingPush(t *testing.T) {
	t.Parallel()
	s := startService(t)
	message := `<b>Привет</b> & \"ты\" 👋🏽 \\ \n \t é/` + canaryMessage
	before := time.Now().Add(-time.Second)
	id := s.accept(push("message", `"`+message+`"`))
	got := s.get("/push/" + id)
	require.Equal(t, http.StatusOK, got.status)
	require.Equal(t, "application/json", got.header.Get("Content-Type"))
	created, body := takeTime(t, got.body, "createdAt")
	require.WithinRange(t, created, before, time.Now().Add(time.Second))
	require.Equal(t, `{"id":"`+id+`","status":"PENDING","platform":"IOS","messagePrototypeKey":"Hello","pushKey":"`+canaryPushKey+
		`","message":"`+message+`","cronExpression":null,"timeZone":null,"traceId":null,"createdAt":"TIME","nextAttemptAt":null,"attempts":[]}`+"\n", body)
}

// To look again would not help: the answer says which key must go.
func TestGetPushWhoseKeyIsUnusable(t *testing.T) {
	t.Parallel()
	s := startService(t)
	for what, keyOf := range map[string]func(id string) string{
		"record": tasks.Swrve.RecordKey,
		"task":   func(id string) string { return "asynq:{swrve}:t:" + id },
	} {
		id := s.accept(push())
		key := keyOf(id)
		require.NoError(t, s.client.Del(t.Context(), key).Err())
		require.NoError(t, s.client.LPush(t.Context(), key, "of others").Err())
		got := s.get("/push/" + id)
		require.Equal(t, http.StatusInternalServerError, got.status, what)
		require.Contains(t, got.problem.Detail, key+" that pushq cannot have written", what)
		require.Empty(t, got.header.Get("Retry-After"), what)
	}
}

func TestGetScheduledPush(t *testing.T) {
	t.Parallel()
	s := startService(t)
	at := time.Now().UTC().Add(48 * time.Hour).Truncate(time.Hour)
	expression := fmt.Sprintf("0 0 %d %d %d ? %d", at.Hour(), at.Day(), at.Month(), at.Year())
	id := s.accept(push("platform", `"ANDROID"`, "cronExpression", `"`+expression+`"`, "timeZone", `"Etc/UTC"`))
	_, body := takeTime(t, s.get("/push/"+id).body, "createdAt")
	require.Equal(t, compact(t, `{"id":"`+id+`","status":"SCHEDULED","platform":"ANDROID","messagePrototypeKey":"Hello",
		"pushKey":"`+canaryPushKey+`","message":"`+canaryMessage+`","cronExpression":"`+expression+`","timeZone":"Etc/UTC","traceId":null,
		"createdAt":"TIME","nextAttemptAt":"`+at.Format("2006-01-02T15:04:05")+`.000Z","attempts":[]}`), body)
}

func TestZoneOfASchedule(t *testing.T) {
	t.Parallel()
	s := prepareService(t)
	kolkata, err := time.LoadLocation("Asia/Kolkata")
	require.NoError(t, err)
	s.options.Zone = kolkata
	s.start()
	day := time.Now().UTC().Add(72 * time.Hour).Truncate(24 * time.Hour)
	noon := fmt.Sprintf(`"0 0 12 %d %d ? %d"`, day.Day(), day.Month(), day.Year())
	for zone, hour := range map[string]time.Duration{
		"":             6*time.Hour + 30*time.Minute,
		`"UTC"`:        12 * time.Hour,
		`"Asia/Tokyo"`: 3 * time.Hour,
	} {
		id := s.accept(push("cronExpression", noon, "timeZone", zone))
		next, _ := takeTime(t, s.get("/push/"+id).body, "nextAttemptAt")
		require.Equal(t, day.Add(hour), next, zone)
	}
}

func TestGetPushShowsTheTokenThatReplacesTheRecipients(t *testing.T) {
	t.Parallel()
	s := startService(t)
	stored := tasks.Push{ID: s.accept(push()), Platform: tasks.IOS, MessagePrototypeKey: "Hello", PushKey: canaryPushKey, Message: canaryMessage, CreatedAt: tasks.MillisOf(time.Now())}
	millis := int64(12)
	for token, replacement := range map[string]string{"one": "", "two": "new-token"} {
		_, err := s.records.Begin(context.Background(), tasks.Attempting{Push: stored, Token: token, Interrupted: time.Minute, MaxAttempts: 3})
		require.NoError(t, err)
		require.NoError(t, errorOf(s.records.Finish(context.Background(), stored, tasks.Attempt{
			Token: token, Status: tasks.AttemptOK, Millis: &millis, Replacement: replacement,
		}, "")))
	}
	body := s.get("/push/" + stored.ID).body
	require.Equal(t, 1, strings.Count(body, `"replacement"`), body)
	require.Contains(t, body, `"maybeDelivered":false,"replacement":"new-token"}`)
}

func TestGetPushWithAttempts(t *testing.T) {
	t.Parallel()
	s := startService(t)
	id := s.accept(push())
	stored := tasks.Push{ID: id, Platform: tasks.IOS, MessagePrototypeKey: "Hello", PushKey: canaryPushKey, Message: canaryMessage, CreatedAt: tasks.MillisOf(time.Now())}
	begin := func(token string) {
		begun, err := s.records.Begin(context.Background(), tasks.Attempting{Push: stored, Token: token, Interrupted: time.Minute, MaxAttempts: 3})
		require.NoError(t, err)
		require.Equal(t, tasks.Go, begun.Answer)
	}
	millis, none := int64(812), int64(0)
	begin("one")
	require.NoError(t, errorOf(s.records.Finish(context.Background(), stored, tasks.Attempt{
		Token: "one", Status: tasks.AttemptError, Millis: &millis, ErrorType: tasks.ErrorSwrve, ErrorCode: 503,
		ErrorMessage: "<busy> & gone", StackTrace: "stack", MaybeDelivered: true,
	}, "")))
	begin("two")
	require.NoError(t, errorOf(s.records.Finish(context.Background(), stored, tasks.Attempt{
		Token: "two", Status: tasks.AttemptError, Millis: &none, ErrorType: tasks.ErrorMessagePrototypeKey,
	}, "")))
	begin("three")

	body := regexp.MustCompile(`"startedAt":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"`).
		ReplaceAllString(s.get("/push/"+id).body, `"startedAt":"TIME"`)
	require.Contains(t, body, strings.TrimSpace(compact(t, `[
		{"id":1,"status":"ERROR","startedAt":"TIME","millis":812,"errorType":"SWRVE","errorCode":503,
		 "errorMessage":"<busy> & gone","stackTrace":"stack","maybeDelivered":true},
		{"id":2,"status":"ERROR","startedAt":"TIME","millis":0,"errorType":"MESSAGE_PROTOTYPE_KEY","errorCode":null,
		 "errorMessage":null,"stackTrace":null,"maybeDelivered":false},
		{"id":3,"status":"IN_PROCESS","startedAt":"TIME","millis":null,"errorType":null,"errorCode":null,
		 "errorMessage":null,"stackTrace":null,"maybeDelivered":false}]`)))
}

func TestPushThatDoesNotExist(t *testing.T) {
	t.Parallel()
	s := startService(t)
	known := s.accept(push())
	for _, id := range []string{
		tasks.NewID(), strings.ToLower(known), known + "0", known[1:], "1", "-", "*", "%2A", "null", "%20" + known, known + "%0A", "%00",
		"..%2F..%2Fetc", "%C3%A9", "%FF", strings.Repeat("A", 8000), known + "/attempts", known + "/", "",
		"550e8400-e29b-41d4-a716-446655440000",
	} {
		got := s.get("/push/" + id)
		require.Equal(t, http.StatusNotFound, got.status, "%q", id)
		require.Equal(t, "not-found", got.kind())
	}
}

func TestPushThatCannotBeDecodedIsShownAllTheSame(t *testing.T) {
	t.Parallel()
	s := startService(t)
	id := tasks.NewID()
	_, err := asynq.NewClientFromRedisClient(s.client).Enqueue(asynq.NewTask(tasks.Swrve.TaskType(), []byte("no JSON")),
		asynq.TaskID(id), asynq.Queue(tasks.Swrve.ImmediateQueue()))
	require.NoError(t, err)
	require.Equal(t, compact(t, `{"id":"`+id+`","status":"PENDING","platform":"","messagePrototypeKey":"","pushKey":"","message":"",
		"cronExpression":null,"timeZone":null,"traceId":null,"createdAt":null,"nextAttemptAt":null,"attempts":[]}`), s.get("/push/"+id).body)
}

// Some clients encode characters that need it not, or join addresses with one slash more.
func TestOtherSpellingsOfAnAddress(t *testing.T) {
	t.Parallel()
	s := startService(t)
	id := s.accept(push())
	s.http = &http.Client{} // the description knows ids as they are written
	encoded := fmt.Sprintf("%%%02X%s%%%02x", id[0], id[1:25], id[25])
	require.Contains(t, s.get("/push/"+encoded).body, id)
	require.Equal(t, http.StatusNoContent, s.cancel(encoded).status)
	require.Equal(t, http.StatusAccepted, s.retry(encoded).status)
	require.Equal(t, http.StatusNotFound, s.get("/push/"+id+"%2F").status)
	for _, call := range [][2]string{
		{http.MethodPost, "/push/"}, {http.MethodGet, "/push/"}, {http.MethodGet, "/push/" + id + "/"}, {http.MethodPost, "/push/batch/"},
		{http.MethodPost, "/push/" + id + "/retry/"}, {http.MethodGet, "/health/"}, {http.MethodGet, "/nothing/"},
	} {
		got := s.send(call[0], call[1], strings.NewReader(push()), "Content-Type", "application/json")
		require.Contains(t, []int{http.StatusNotFound, http.StatusMethodNotAllowed}, got.status, call)
		require.Equal(t, "The address ends in a slash, which none does here: leave it out.", got.problem.Detail, call)
	}
	require.NotContains(t, s.get("/nothing").problem.Detail, "slash")
	require.NotContains(t, s.get("/").problem.Detail, "slash")
}
