package rabbitmq

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"
)

// FailedMessage is what the queue of failed messages gets for a message:
//
//	{"original_message":{…},"failure_reason":"…","failed_at":"2025-11-11T10:32:00Z"}
//
// The original is kept as it is, without its insignificant white space. One that is not
// JSON becomes a string; one that is not even UTF-8, a string in base64. The result has at
// most 8 MiB, less than RabbitMQ takes unless told otherwise (max_message_size): where it
// would have more, only the first 64 KiB of the original are kept, as a string, and the
// reason says so.
func FailedMessage(original []byte, reason string, at time.Time) []byte {
	length := len(original)
	if length <= maxMessage { // a longer one may have six times its bytes when written
		if message := failedMessage(original, reason, at); len(message) <= maxMessage {
			return message
		}
	}
	kept := bytes.ToValidUTF8(original[:min(length, keptOfLarge)], []byte("\uFFFD"))
	reason = fmt.Sprintf("%s (the message has %d bytes, of which these are the first)", reason[:min(len(reason), keptOfLarge)], length)
	return failedMessage(kept, reason, at)
}

const (
	maxMessage  = 8 << 20
	keptOfLarge = 64 << 10
)

func failedMessage(original []byte, reason string, at time.Time) []byte {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	// Valid JSON and strings: it cannot fail.
	_ = encoder.Encode(struct {
		Original any    `json:"original_message"`
		Reason   string `json:"failure_reason"`
		FailedAt string `json:"failed_at"`
	}{embeddable(original), reason, at.UTC().Format(time.RFC3339)})
	return bytes.TrimSuffix(text.Bytes(), []byte("\n"))
}

func embeddable(original []byte) any {
	switch {
	case !utf8.Valid(original):
		return original // which JSON writes in base64
	case json.Valid(original):
		return json.RawMessage(original)
	default:
		return string(original)
	}
}
