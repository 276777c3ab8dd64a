package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	"pushq/tasks"
)

const notification = `{"trace_id":"a3f5b9c1-2d4e-4a5f-9b2c-7e8d9f1a2b3c","idempotency_key":"notif_1","user_id":"u1","notification_type":"push",
	"recipient":"token-1","template_code":"welcome_notification","variables":{"name":"Ada"},"language":"en","metadata":{}}`

// startNotifications serves the channel fcm too.
func startNotifications(t *testing.T) *testService {
	s := prepareService(t)
	intake := tasks.NewIntake(s.client, tasks.FCM, retention)
	t.Cleanup(intake.Close)
	s.options.Notifications = intake
	s.options.Channels = tasks.Channels()
	return s.start()
}

func (s *testService) notify(body string, header ...string) answer {
	s.t.Helper()
	return s.send(http.MethodPost, "/notifications", strings.NewReader(body), append([]string{"Content-Type", "application/json"}, header...)...)
}

// stored returns the message of the only push in the queue.
func (s *testService) stored() string {
	s.t.Helper()
	pending, err := asynq.NewInspectorFromRedisClient(s.client).ListPendingTasks(tasks.FCM.ImmediateQueue())
	require.NoError(s.t, err)
	require.Len(s.t, pending, 1)
	push, err := tasks.DecodePush(pending[0].ID, pending[0].Payload)
	require.NoError(s.t, err)
	return string(push.Notification)
}

func TestAcceptedNotification(t *testing.T) {
	t.Parallel()
	s := startNotifications(t)
	got := s.notify(notification)
	require.Equal(t, http.StatusAccepted, got.status)
	require.Empty(t, got.body)
	require.Empty(t, got.header.Get(replayedHeader))
	require.True(t, tasks.ValidID(strings.TrimPrefix(got.header.Get("Location"), "/push/")))
	require.JSONEq(t, notification, s.stored())

	again := s.notify(strings.Replace(notification, "a3f5b9c1", "another-trace", 1))
	require.Equal(t, http.StatusAccepted, again.status)
	require.Equal(t, "true", again.header.Get(replayedHeader))
	require.Equal(t, got.header.Get("Location"), again.header.Get("Location"))
	require.JSONEq(t, notification, s.stored())
}

func TestANotificationOfOtherContentUnderAKeyInUse(t *testing.T) {
	t.Parallel()
	s := startNotifications(t)
	first := s.notify(notification)
	require.Equal(t, http.StatusAccepted, first.status)
	got := s.notify(strings.Replace(notification, "Ada", "Eve", 1))
	require.Equal(t, http.StatusConflict, got.status)
	require.Equal(t, "This idempotency_key was used before with other content: it stands for push "+
		strings.TrimPrefix(first.header.Get("Location"), "/push/")+".", got.problem.Detail)
	require.Equal(t, "urn:pushq:problem:idempotency-key-reused", got.problem.Type)
	require.Empty(t, got.header.Get("Location"))
	require.JSONEq(t, notification, s.stored())
}

// The caller learns that nothing was stored and that repeating it changes nothing, and both
// the answer and the log name the key.
func TestANotificationWhoseKeyIsUnusable(t *testing.T) {
	t.Parallel()
	s := startNotifications(t)
	require.NoError(t, s.client.HSet(t.Context(), tasks.IdempotencyStateKey("notif_1"), "of", "others").Err())
	got := s.notify(notification)
	require.Equal(t, http.StatusInternalServerError, got.status)
	require.Contains(t, got.problem.Detail, "idempotency:notif_1")
	require.Contains(t, got.problem.Detail, "Nothing was done")
	require.Empty(t, got.header.Get("Retry-After"))
	require.Contains(t, s.log.String(), "idempotency:notif_1: WRONGTYPE")
	require.Equal(t, http.StatusAccepted, s.notify(strings.Replace(notification, "notif_1", "notif_2", 1)).status)
}

func TestNotificationWithTheTraceOfItsRequest(t *testing.T) {
	t.Parallel()
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	without := strings.Replace(notification, `"trace_id":"a3f5b9c1-2d4e-4a5f-9b2c-7e8d9f1a2b3c",`, "", 1)
	for name, test := range map[string]struct{ body, header, trace string }{
		"none in the message":  {without, "00-" + trace + "-00f067aa0ba902b7-01", trace},
		"the message's counts": {notification, "00-" + trace + "-00f067aa0ba902b7-01", "a3f5b9c1-2d4e-4a5f-9b2c-7e8d9f1a2b3c"},
		"no trace":             {without, "", ""},
		"a later version":      {without, "01-" + trace + "-00f067aa0ba902b7-01-more", trace},
		"no version":           {without, "ff-" + trace + "-00f067aa0ba902b7-01", ""},
		"upper case":           {without, "00-" + strings.ToUpper(trace) + "-00f067aa0ba902b7-01", ""},
		"all zero":             {without, "00-00000000000000000000000000000000-00f067aa0ba902b7-01", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startNotifications(t)
			got := s.notify(test.body, "traceparent", test.header)
			if test.trace == "" {
				got.requireMistakes(t, "trace_id is missing")
				return
			}
			require.Equal(t, http.StatusAccepted, got.status)
			require.Contains(t, s.stored(), fmt.Sprintf(`"trace_id":%q`, test.trace))
		})
	}
}

func TestNotificationWithTheKeyOfItsRequest(t *testing.T) {
	t.Parallel()
	const field = `"idempotency_key":"notif_1",`
	for name, test := range map[string]struct{ body, header, key, mistake string }{
		"none in the message": {strings.Replace(notification, field, "", 1), `a"\b`, `a"\b`, ""},
		"the same":            {notification, "notif_1", "notif_1", ""},
		"another":             {notification, "notif_2", "", "{Idempotency-Key differs from the message's idempotency_key"},
		"with a blank":        {notification, "notif 1", "", "Idempotency-Key must be there once"},
		"nothing else":        {" {}", "notif_1", "", "trace_id is missing"},
		"no object":           {"[]", "notif_1", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startNotifications(t)
			got := s.notify(test.body, idempotencyKeyHeader, test.header)
			if test.key == "" {
				require.Equal(t, http.StatusBadRequest, got.status)
				require.Contains(t, fmt.Sprint(got.problem.Errors), test.mistake)
				require.NotContains(t, fmt.Sprint(got.problem.Errors), "{idempotency_key is missing}")
				return
			}
			require.Equal(t, http.StatusAccepted, got.status)
			stored, err := tasks.ParseNotification([]byte(s.stored()))
			require.NoError(t, err)
			require.Equal(t, test.key, stored.IdempotencyKey)
		})
	}
}

func TestBadNotifications(t *testing.T) {
	t.Parallel()
	s := startNotifications(t)
	for _, test := range []struct{ replaced, by, mistake string }{
		{`"push"`, `"email"`, `notification_type must be "push"`},
		{`token-1`, `token 1`, "recipient must have visible ASCII characters only, and no blanks"},
		{`"Ada"`, `{"a":1}`, `variables must be texts, numbers, true, false or null: "name"`},
		{`"metadata":{}`, `"metadata":[]`, "metadata must be an object"},
		{`"idempotency_key":"notif_1",`, ``, "idempotency_key is missing"},
	} {
		s.notify(strings.Replace(notification, test.replaced, test.by, 1)).requireMistakes(t, test.mistake)
	}
	for name, body := range map[string]string{"no JSON": "hello", "an array": "[]", "cut off": notification[:50], "nothing": ""} {
		got := s.notify(body)
		require.Equal(t, http.StatusBadRequest, got.status, name)
		require.NotEmpty(t, got.problem.Detail, name)
	}
	require.Equal(t, http.StatusRequestEntityTooLarge, s.notify(strings.Repeat(" ", 20_000)).status)
}

func TestNoNotificationsWithoutTheirChannel(t *testing.T) {
	t.Parallel()
	got := startService(t).notify(notification)
	require.Equal(t, http.StatusNotFound, got.status)
	require.Contains(t, got.problem.Detail, "fcm.enabled")
}

// brokenNotifications answers with its error.
type brokenNotifications struct{ err error }

func (b brokenNotifications) Notify(context.Context, tasks.Notification, []byte, time.Time) (string, bool, error) {
	return "", false, b.err
}

func TestNotificationsThatCannotBeTaken(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err    error
		status int
		kind   string
	}{
		{tasks.ErrNotStored, http.StatusServiceUnavailable, "unavailable"},
		{tasks.ErrOutcomeUnknown, http.StatusServiceUnavailable, "outcome-unknown"},
		{tasks.ErrStoreFull, http.StatusServiceUnavailable, "store-full"},
		{errors.New("inner workings"), http.StatusInternalServerError, "internal"},
	} {
		s := prepareService(t)
		s.options.Notifications = brokenNotifications{test.err}
		s.start()
		got := s.notify(notification)
		require.Equal(t, test.status, got.status)
		require.Equal(t, test.kind, got.kind())
	}
	s := startNotifications(t)
	require.Equal(t, http.StatusUnsupportedMediaType, s.send(http.MethodPost, "/notifications", strings.NewReader(notification), "Content-Type", "text/plain").status)
}

func TestANotificationWhoseBodyDoesNotCome(t *testing.T) {
	t.Parallel()
	s := prepareService(t)
	s.options.Notifications = brokenNotifications{}
	s.readTimeout = 500 * time.Millisecond
	s.start()
	head := "POST /notifications HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n"
	require.Equal(t, http.StatusRequestTimeout, s.exchange(head+"{").status)
}
