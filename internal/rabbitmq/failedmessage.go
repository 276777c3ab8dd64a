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
// JSON becomes a string; one that is not even UTF-8, a string in base64. Of one with more
// than 4 MiB only the first 64 KiB are kept, as a string, and the reason says so: written
// as JSON it may have six times the bytes that it had, and more than RabbitMQ takes.
func FailedMessage(original []byte, reason string, at time.Time) []byte {
	if length := len(original); length > maxOriginal {
		original = bytes.ToValidUTF8(original[:keptOfLarge], []byte("\uFFFD"))
		reason += fmt.Sprintf(" (the message has %d bytes, of which these are the first)", length)
	}
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

const (
	maxOriginal = 4 << 20
	keptOfLarge = 64 << 10
)

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
