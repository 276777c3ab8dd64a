package tasks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"pushq/internal/tracing"
)

// A Notification is what a push of a templated channel is about. The texts come from
// the template when the push is sent.
type Notification struct {
	TraceID          string
	IdempotencyKey   string
	UserID           string
	NotificationType string // PushNotification
	Recipient        string // the device's token
	TemplateCode     string
	// Variables are the texts to put into the template; numbers and booleans as JSON
	// writes them, and "" for null.
	Variables map[string]string
	Language  string
	Metadata  json.RawMessage // an object

	// Trace is what the sender says of the trace besides TraceID. It is no part of the
	// message.
	Trace tracing.Trace
}

// PushNotification is the only notification_type that there is.
const PushNotification = "push"

// What a message may have. A device's token has about 160 characters, and no provider
// takes 4,096 bytes of payload or more.
const (
	MaxNotificationBytes = 64 << 10
	maxRecipient         = 4096
	maxName              = 255
	maxTemplateCode      = 128
	maxVariables         = 1000
	maxDepth             = 32
)

// A FieldError says what is wrong with one field of a message.
type FieldError struct {
	Field   string // "" for the message as a whole
	Problem string
}

// InvalidNotificationError says everything that is wrong with a message.
type InvalidNotificationError struct {
	Fields []FieldError
}

func (e *InvalidNotificationError) Error() string {
	problems := make([]string, len(e.Fields))
	for place, field := range e.Fields {
		problems[place] = strings.TrimSpace(field.Field + " " + field.Problem)
	}
	return "the message cannot be used: " + strings.Join(problems, "; ")
}

// ParseNotification reads a message as its senders write it: a JSON object with all nine
// fields. Others are kept (Push.Notification), and nobody looks at them. Null for variables
// or metadata is {}: several languages write an empty object so. The error is an
// *InvalidNotificationError.
func ParseNotification(message []byte) (Notification, error) {
	if len(message) > MaxNotificationBytes {
		return Notification{}, invalidMessage(fmt.Sprintf("is larger than %d bytes", MaxNotificationBytes))
	}
	if err := checkDepth(message); err != nil {
		return Notification{}, invalidMessage(err.Error())
	}
	var values map[string]jsontext.Value
	if err := jsonv2.Unmarshal(message, &values); err != nil || values == nil {
		return Notification{}, invalidMessage("is not one JSON object")
	}
	var n Notification
	var faults []FieldError
	for _, field := range []struct {
		name string
		read func(jsontext.Value) (problem string)
	}{
		{"trace_id", text(&n.TraceID, visible(maxName))},
		{"idempotency_key", text(&n.IdempotencyKey, visible(maxName))},
		{"user_id", text(&n.UserID, visible(maxName))},
		{"notification_type", text(&n.NotificationType, isPush)},
		{"recipient", text(&n.Recipient, visible(maxRecipient))},
		{"template_code", text(&n.TemplateCode, madeOf(maxTemplateCode, "letters, digits, '_', '.' and '-'", "_.-"))},
		{"variables", n.readVariables},
		{"language", text(&n.Language, madeOf(35, "letters, digits, '-' and '_', such as en, pt-BR or en_US", "-_"))},
		{"metadata", n.readMetadata},
	} {
		value, given := values[field.name]
		problem := "is missing"
		if given {
			problem = field.read(value)
		}
		if problem != "" {
			faults = append(faults, FieldError{field.name, problem})
		}
	}
	if len(faults) > 0 {
		return Notification{}, &InvalidNotificationError{faults}
	}
	return n, nil
}

func invalidMessage(problem string) error {
	return &InvalidNotificationError{[]FieldError{{Problem: problem}}}
}

// checkDepth reads the whole message, so it also finds what is no JSON: names that come
// twice, text that is not UTF-8. A second value after the first is for others to find.
func checkDepth(message []byte) error {
	decoder := jsontext.NewDecoder(bytes.NewReader(message))
	for {
		_, err := decoder.ReadToken()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return errors.New("is not JSON: " + strings.TrimPrefix(err.Error(), "jsontext: "))
		case decoder.StackDepth() > maxDepth:
			return fmt.Errorf("is nested more than %d deep", maxDepth)
		}
	}
}

// text reads a text that check finds nothing wrong with.
func text(into *string, check func(string) (problem string)) func(jsontext.Value) string {
	return func(value jsontext.Value) string {
		if value.Kind() != '"' {
			return "must be a text"
		}
		unquoted, err := jsontext.AppendUnquote(nil, value)
		if err != nil {
			return "must be a text"
		}
		*into = string(unquoted)
		return check(*into)
	}
}

// visible wants what can be seen, and no blanks: such texts become parts of keys, logs
// and headers.
func visible(limit int) func(string) string {
	return func(text string) string {
		switch {
		case text == "":
			return "is empty"
		case len(text) > limit:
			return fmt.Sprintf("must have at most %d characters", limit)
		case strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }):
			return "must have visible ASCII characters only, and no blanks"
		default:
			return ""
		}
	}
}

// madeOf wants letters, digits and the signs.
func madeOf(limit int, described, signs string) func(string) string {
	return func(text string) string {
		switch {
		case text == "":
			return "is empty"
		case len(text) > limit:
			return fmt.Sprintf("must have at most %d characters", limit)
		case strings.ContainsFunc(text, func(r rune) bool { return !isLetterOrDigit(r) && !strings.ContainsRune(signs, r) }):
			return "must be made of " + described
		default:
			return ""
		}
	}
}

func isLetterOrDigit(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
}

func isPush(text string) string {
	if text != PushNotification {
		return `must be "push"`
	}
	return ""
}

func (n *Notification) readVariables(value jsontext.Value) string {
	if value.Kind() != '{' && value.Kind() != 'n' {
		return "must be an object, {} if there are none"
	}
	var values map[string]jsontext.Value // null leaves it empty
	if err := jsonv2.Unmarshal(value, &values); err != nil {
		return "must be an object"
	}
	if len(values) > maxVariables {
		return fmt.Sprintf("has %d variables, more than %d", len(values), maxVariables)
	}
	n.Variables = make(map[string]string, len(values))
	var wrong []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		variable, ok := variableText(values[name])
		if !ok {
			wrong = append(wrong, shown(name))
		}
		n.Variables[name] = variable
	}
	if len(wrong) > 0 {
		return "must be texts, numbers, true, false or null: " + strings.Join(wrong[:min(len(wrong), 10)], ", ")
	}
	return ""
}

func variableText(value jsontext.Value) (text string, ok bool) {
	switch value.Kind() {
	case '"':
		unquoted, err := jsontext.AppendUnquote(nil, value)
		return string(unquoted), err == nil
	case '0', 't', 'f':
		return string(value), true
	case 'n':
		return "", true
	default:
		return "", false
	}
}

// shown is a name from outside, short enough for a message.
func shown(name string) string {
	const enough = 40
	if utf8.RuneCountInString(name) > enough {
		name = string([]rune(name)[:enough]) + "…"
	}
	return fmt.Sprintf("%q", name)
}

func (n *Notification) readMetadata(value jsontext.Value) string {
	switch value.Kind() {
	case '{':
		n.Metadata = json.RawMessage(bytes.Clone(value))
	case 'n':
		n.Metadata = json.RawMessage("{}")
	default:
		return "must be an object, {} if there is nothing to say"
	}
	return ""
}

// asksForTheSame reports whether two messages are for the same user, device and text. How
// JSON writes it makes no difference. The trace and the metadata are none of it, for nothing
// that is sent depends on them: a sender that repeats a message may do so in another trace,
// and with the time of the repetition.
func (n Notification) asksForTheSame(other Notification) bool {
	return n.UserID == other.UserID && n.NotificationType == other.NotificationType && n.Recipient == other.Recipient &&
		n.TemplateCode == other.TemplateCode && n.Language == other.Language && maps.Equal(n.Variables, other.Variables)
}
