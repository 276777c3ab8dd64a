package rabbitmq

import (
	"bytes"
	"encoding/json"
	"fmt"
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
	const around = len(`{"original_message":"","failure_reason":"too large","failed_at":"2025-11-11T10:32:00Z"}`)
	kept, reason := read(bytes.Repeat([]byte("x"), maxMessage-around))
	require.Len(t, kept, maxMessage-around)
	require.Equal(t, "too large", reason)
	for _, length := range []int{maxMessage - around + 1, 2 * maxMessage} {
		for _, filling := range []string{"x", "\x00", "é", "\xff", "\x00\xff"} {
			large := []byte(strings.Repeat(filling, length/len(filling)+1))
			kept, reason = read(large)
			require.NotEmpty(t, kept)
			require.LessOrEqual(t, len(kept), 3*keptOfLarge)
			require.Equal(t, fmt.Sprintf("too large (the message has %d bytes, of which these are the first)", len(large)), reason)
		}
	}
}

// RabbitMQ refuses what is larger than its limit, again and again.
func TestFailedMessageIsNeverTooLarge(t *testing.T) {
	t.Parallel()
	for _, length := range []int{maxMessage / 6, maxMessage} {
		for _, filling := range []string{"x", "\x00", "\xff", "\x00\xff"} {
			for _, reason := range []string{"x", "\x00"} {
				text := func(filling string) string { return strings.Repeat(filling, length/len(filling)) }
				require.LessOrEqual(t, len(FailedMessage([]byte(text(filling)), text(reason), failedAt)), maxMessage, "%q %q", filling, reason)
			}
		}
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
		text := FailedMessage(original, reason, failedAt)
		require.LessOrEqual(t, len(text), maxMessage)
		require.NoError(t, json.Unmarshal(text, &message))
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
