package tasks

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"pushq/internal/testenv"
)

func TestAMessageIsRead(t *testing.T) {
	t.Parallel()
	got, err := ParseNotification(testenv.Notification(
		"variables", `{"name":"A\u00e9 {{other}} <b>","count":3,"share":-1.50,"first":true}`, "metadata", `{"tags":[1,[]]}`, "priority", `"high"`))
	require.NoError(t, err)
	require.Equal(t, Notification{
		TraceID: "a3f5b9c1-2d4e-4a5f-9b2c-7e8d9f1a2b3c", IdempotencyKey: "notif_8f3d9a1c2b4e5f6a7b8c9d0e1f2a3b4c",
		UserID: "550e8400-e29b-41d4-a716-446655440000", NotificationType: "push", Recipient: "fcm_device_token_xyz123",
		TemplateCode: "welcome_notification", Language: "en",
		Variables: map[string]string{"name": "Aé {{other}} <b>", "count": "3", "share": "-1.50", "first": "true"},
		Metadata:  json.RawMessage(`{"tags":[1,[]]}`),
	}, got)
}

// What the push worker took, and several languages write for something empty.
func TestAMessageAsOtherLanguagesWriteIt(t *testing.T) {
	t.Parallel()
	got, err := ParseNotification(testenv.Notification(
		"language", `"en_US"`, "variables", `{"name":null,"link":"https://example.com"}`, "metadata", `{"campaign":null,"tags":[null]}`))
	require.NoError(t, err)
	require.Equal(t, "en_US", got.Language)
	require.Equal(t, map[string]string{"name": "", "link": "https://example.com"}, got.Variables)
	require.Equal(t, json.RawMessage(`{"campaign":null,"tags":[null]}`), got.Metadata)

	got, err = ParseNotification(testenv.Notification("variables", "null", "metadata", "null"))
	require.NoError(t, err)
	require.Equal(t, map[string]string{}, got.Variables)
	require.Equal(t, json.RawMessage("{}"), got.Metadata)
	empty, err := ParseNotification(testenv.Notification("variables", "{}", "metadata", "{}"))
	require.NoError(t, err)
	require.True(t, got.asksForTheSame(empty))
}

func TestEveryFaultOfAMessageIsNamed(t *testing.T) {
	t.Parallel()
	_, err := ParseNotification(testenv.Notification())
	require.NoError(t, err, "each of the bad ones differs from this")
	for _, bad := range testenv.BadMessages() {
		t.Run(bad.Name, func(t *testing.T) {
			t.Parallel()
			_, err := ParseNotification(bad.Body)
			var wrong *InvalidNotificationError
			require.ErrorAs(t, err, &wrong)
			require.Len(t, wrong.Fields, 1)
			require.Equal(t, bad.Field, wrong.Fields[0].Field)
			require.Contains(t, wrong.Fields[0].Problem, bad.Problem)
			require.Less(t, len(err.Error()), 1000, "no echo of long texts")
		})
	}
}

func TestAllFaultsAreNamedAtOnce(t *testing.T) {
	t.Parallel()
	_, err := ParseNotification([]byte(`{"notification_type":"sms"}`))
	var wrong *InvalidNotificationError
	require.ErrorAs(t, err, &wrong)
	require.Len(t, wrong.Fields, 9)
	require.ErrorContains(t, err, `the message cannot be used: trace_id is missing; idempotency_key is missing; user_id is missing; notification_type must be "push"; recipient`)
}

// What is read is what JSON says it is, and what is read can be read again after Compact
// and in a payload.
func FuzzParseNotification(f *testing.F) {
	f.Add(testenv.Notification())
	f.Add(testenv.Notification("variables", `{"a":1e400,"b":" ","c":false}`))
	f.Add(testenv.Notification("metadata", ` { "a" : [ 1 , { } ] } `))
	f.Add([]byte(`{"trace_id":"a"`))
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := ParseNotification(text)
		if err != nil {
			var wrong *InvalidNotificationError
			require.ErrorAs(t, err, &wrong)
			return
		}
		push := newNotificationPush(got, text, NewID())
		payload, err := push.encode()
		require.NoError(t, err)
		decoded, err := DecodePush(push.ID, payload)
		require.NoError(t, err)
		again, err := ParseNotification(decoded.Notification)
		require.NoError(t, err)
		got.Metadata, again.Metadata = nil, nil // blanks may differ
		require.Equal(t, got, again)
	})
}
