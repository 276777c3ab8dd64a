package rabbitmq

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

var failedAt = time.Date(2025, 11, 11, 11, 32, 0, 999, time.FixedZone("CET", 3600))

func TestFailedMessage(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ original, reason, message string }{
		"as documented": {
			`{"trace_id": "a", "variables": {"name": "<Zoë & 😀>"}}`, "FCM connection timeout after 3 retries",
			`{"original_message":{"trace_id":"a","variables":{"name":"<Zoë & 😀>"}},"failure_reason":"FCM connection timeout after 3 retries","failed_at":"2025-11-11T10:32:00Z"}`,
		},
		"large numbers and names twice": {
			`{"n":12345678901234567890123,"n":1e400}`, "r",
			`{"original_message":{"n":12345678901234567890123,"n":1e400},"failure_reason":"r","failed_at":"2025-11-11T10:32:00Z"}`,
		},
		"no object":       {`[1, null]`, "r", `{"original_message":[1,null],"failure_reason":"r","failed_at":"2025-11-11T10:32:00Z"}`},
		"no JSON":         {`{"a":`, "a \"quoted\"\nreason", `{"original_message":"{\"a\":","failure_reason":"a \"quoted\"\nreason","failed_at":"2025-11-11T10:32:00Z"}`},
		"nothing":         {"", "r", `{"original_message":"","failure_reason":"r","failed_at":"2025-11-11T10:32:00Z"}`},
		"no UTF-8":        {"\xff\x00", "r", `{"original_message":"/wA=","failure_reason":"r","failed_at":"2025-11-11T10:32:00Z"}`},
		"JSON, no UTF-8":  {"\"\xff\"", "r", `{"original_message":"Iv8i","failure_reason":"r","failed_at":"2025-11-11T10:32:00Z"}`},
		"reason no UTF-8": {"1", "\xff", `{"original_message":1,"failure_reason":"\ufffd","failed_at":"2025-11-11T10:32:00Z"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, test.message, string(FailedMessage([]byte(test.original), test.reason, failedAt)))
		})
	}
}

func TestFailedMessageOfALargeOne(t *testing.T) {
	t.Parallel()
	read := func(original []byte) (kept, reason string) {
		var message struct {
			Original string `json:"original_message"`
			Reason   string `json:"failure_reason"`
		}
		require.NoError(t, json.Unmarshal(FailedMessage(original, "too large", failedAt), &message))
		return message.Original, message.Reason
	}
	kept, reason := read(bytes.Repeat([]byte("x"), maxOriginal))
	require.Len(t, kept, maxOriginal)
	require.Equal(t, "too large", reason)
	for _, filling := range []string{"x", "\x00", "é", "\xff"} {
		large := []byte(strings.Repeat(filling, maxOriginal)[:maxOriginal+1-len(filling)%2] + "!")
		kept, reason = read(large)
		require.NotEmpty(t, kept)
		require.LessOrEqual(t, len(kept), 3*keptOfLarge)
		require.Contains(t, reason, "too large (the message has")
		require.Less(t, len(FailedMessage(large, reason, failedAt)), 1<<20)
	}
}

func FuzzFailedMessage(f *testing.F) {
	for _, original := range []string{"", "{}", "{", "\xff", `{"a":"\ud800"}`, " 1 ", strings.Repeat("[", 20_000)} {
		f.Add([]byte(original), "reason")
	}
	f.Fuzz(func(t *testing.T, original []byte, reason string) {
		var message struct {
			Original json.RawMessage `json:"original_message"`
		}
		require.NoError(t, json.Unmarshal(FailedMessage(original, reason, failedAt), &message))
		switch {
		case !utf8.Valid(original):
			var decoded []byte
			require.NoError(t, json.Unmarshal(message.Original, &decoded))
			require.Equal(t, original, decoded)
		case json.Valid(original):
			var compact bytes.Buffer
			require.NoError(t, json.Compact(&compact, original))
			require.Equal(t, compact.String(), string(message.Original))
		default:
			var text string
			require.NoError(t, json.Unmarshal(message.Original, &text))
			require.Equal(t, string(original), text)
		}
	})
}
