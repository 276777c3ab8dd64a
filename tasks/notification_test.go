package tasks

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// message returns a message as the senders of the queue write it, with fields replaced:
// name and JSON in turn; "" leaves the field out.
func message(replaced ...string) []byte {
	fields := map[string]string{
		"trace_id":          `"a3f5b9c1-2d4e-4a5f-9b2c-7e8d9f1a2b3c"`,
		"idempotency_key":   `"notif_8f3d9a1c2b4e5f6a7b8c9d0e1f2a3b4c"`,
		"user_id":           `"550e8400-e29b-41d4-a716-446655440000"`,
		"notification_type": `"push"`,
		"recipient":         `"fcm_device_token_xyz123"`,
		"template_code":     `"welcome_notification"`,
		"variables":         `{"name":"Ada","link":"https://example.com/welcome"}`,
		"language":          `"en"`,
		"metadata":          `{}`,
	}
	for place := 0; place < len(replaced); place += 2 {
		fields[replaced[place]] = replaced[place+1]
	}
	var members []string
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if fields[name] != "" {
			members = append(members, fmt.Sprintf("%q:%s", name, fields[name]))
		}
	}
	return []byte("{" + strings.Join(members, ",") + "}")
}

func TestAMessageIsRead(t *testing.T) {
	t.Parallel()
	got, err := ParseNotification(message(
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

func TestEveryFaultOfAMessageIsNamed(t *testing.T) {
	t.Parallel()
	_, err := ParseNotification(message())
	require.NoError(t, err, "the tests below change one field of this")
	megabyte := `"` + strings.Repeat("x", 1<<20) + `"`
	texts := []string{"trace_id", "idempotency_key", "user_id", "notification_type", "recipient", "template_code", "language"}
	for _, name := range append(slices.Clone(texts), "variables", "metadata") {
		requireFault(t, message(name, ""), name, "is missing")
		for _, other := range []string{"null", "1", "true", "[]", `["a"]`} {
			requireFault(t, message(name, other), name, "must be")
		}
		requireFault(t, message(name, megabyte), "", "is larger than 65536 bytes")
	}
	for _, name := range texts {
		requireFault(t, message(name, "{}"), name, "must be a text")
		requireFault(t, message(name, `""`), name, "")
		requireFault(t, message(name, `"`+strings.Repeat("x", 5000)+`"`), name, "must")
		requireFault(t, message(name, `"a b"`), name, "must")
		requireFault(t, message(name, `"a\u0000"`), name, "must")
		requireFault(t, message(name, `"é"`), name, "must")
		requireFault(t, message(name, `" "`), name, "must")
	}
	for _, test := range []struct{ name, value, problem string }{
		{"notification_type", `"email"`, `must be "push"`},
		{"notification_type", `"PUSH"`, `must be "push"`},
		{"recipient", `"a token"`, "must have visible ASCII characters only, and no blanks"},
		{"template_code", `"../admin"`, "must be made of letters"},
		{"template_code", `"a?language=de"`, "must be made of letters"},
		{"language", `"en&x"`, "must be made of letters"},
		{"variables", `"text"`, "must be an object"},
		{"variables", `{"a":{"b":"c"}}`, `must be texts, numbers, true or false: "a"`},
		{"variables", `{"b":[],"a":null,"c":"fine"}`, `must be texts, numbers, true or false: "a", "b"`},
		{"metadata", `"text"`, "must be an object"},
		{"metadata", `[]`, "must be an object"},
	} {
		requireFault(t, message(test.name, test.value), test.name, test.problem)
	}
	requireFault(t, message("variables", variables(10_000)), "", "larger than")
	requireFault(t, message("variables", variables(1001)), "variables", "has 1001 variables, more than 1000")
}

func variables(count int) string {
	members := make([]string, count)
	for number := range members {
		members[number] = fmt.Sprintf(`"v%d":1`, number)
	}
	return "{" + strings.Join(members, ",") + "}"
}

func TestWhatIsNoMessage(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ text, problem string }{
		"nothing":               {"", "is not"},
		"null":                  {"null", "is not one JSON object"},
		"a number":              {"1", "is not one JSON object"},
		"an array":              {"[]", "is not one JSON object"},
		"a word":                {"hello", "is not JSON"},
		"cut off":               {`{"trace_id":"a"`, "is not JSON"},
		"a second value":        {string(message()) + "{}", "is not one JSON object"},
		"a name twice":          {`{"trace_id":"a","trace_id":"b"}`, "is not JSON"},
		"a nested name twice":   {string(message("metadata", `{"a":1,"a":2}`)), "is not JSON"},
		"no UTF-8":              {string(message("metadata", "{\"a\":\"\xff\"}")), "is not JSON"},
		"half a surrogate pair": {string(message("metadata", `{"a":"\ud800"}`)), "is not JSON"},
		"too deep":              {string(message("metadata", strings.Repeat(`{"a":`, 40)+"1"+strings.Repeat("}", 40))), "is nested more than 32 deep"},
		"much too deep":         {strings.Repeat("[", 60_000), "is nested more than 32 deep"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requireFault(t, []byte(test.text), "", test.problem)
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

// requireFault wants exactly one fault: of that field ("" for the whole).
func requireFault(t *testing.T, text []byte, field, problem string) {
	t.Helper()
	_, err := ParseNotification(text)
	var wrong *InvalidNotificationError
	require.ErrorAs(t, err, &wrong, "%.200s", text)
	require.Len(t, wrong.Fields, 1, "%.200s", text)
	require.Equal(t, field, wrong.Fields[0].Field, "%.200s", text)
	require.Contains(t, wrong.Fields[0].Problem, problem, "%.200s", text)
	require.Less(t, len(err.Error()), 1000, "no echo of long texts")
}

// What is read is what JSON says it is, and what is read can be read again after Compact
// and in a payload.
func FuzzParseNotification(f *testing.F) {
	f.Add(message())
	f.Add(message("variables", `{"a":1e400,"b":" ","c":false}`))
	f.Add(message("metadata", ` { "a" : [ 1 , { } ] } `))
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
