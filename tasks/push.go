// Package tasks knows what is queued: the push and its states, the asynq tasks
// that carry it, and the record that tells its story.
package tasks

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/hibiken/asynq"

	"pushq/internal/tracing"
)

// The platforms that a push may be meant for.
const (
	IOS     = "IOS"
	Android = "ANDROID"
)

// A Push is one message for one device or user: with the fields of Swrve's, or with a
// Notification. Its JSON form is the payload of the asynq task, kept readable for the
// operator who looks at it.
type Push struct {
	// ID is the asynq task id: 26 characters of Crockford's base 32.
	ID string `json:"-"`

	Platform            string `json:"platform,omitempty"`
	MessagePrototypeKey string `json:"messagePrototypeKey,omitempty"`
	PushKey             string `json:"pushKey,omitempty"`
	Message             string `json:"message,omitempty"`

	// CronExpression and TimeZone say when the push may be sent; both are
	// empty for a push that may be sent at once.
	CronExpression string `json:"cronExpression,omitempty"`
	TimeZone       string `json:"timeZone,omitempty"`

	// CreatedAt is when the push was accepted.
	CreatedAt Millis `json:"createdAt"`
	// DueAt is when the push may be sent first; zero means at once.
	DueAt Millis `json:"dueAt,omitempty"`
	// Held means that the push became due in a window and may be sent only
	// while that window is open, retries included.
	Held bool `json:"held,omitempty"`

	// ClaimID names the claim of the push's idempotency key (Channel.ClaimKey) if that
	// is not named by its ID.
	ClaimID string `json:"claimId,omitempty"`
	// Notification is the message of a templated channel, as it came but for blanks.
	Notification json.RawMessage `json:"notification,omitempty"`

	// Trace is the trace that the push belongs to. The headers of the task have it, not
	// its payload; the record has it too, because it outlives the task.
	Trace tracing.Trace `json:"trace,omitzero"`
}

// LogAttr names the push in a line of the log, and its trace if it has one.
func (p Push) LogAttr() slog.Attr {
	id := slog.String("id", p.ID)
	if p.Trace == (tracing.Trace{}) {
		return id
	}
	return slog.Attr{Value: slog.GroupValue(id, slog.String("trace_id", p.Trace.Name()))}
}

// claimID names the claim that the push's idempotency key has, if it has one.
func (p Push) claimID() string {
	if p.ClaimID != "" {
		return p.ClaimID
	}
	return p.ID
}

// sentClaimKept is how long the push's claim lives after SENT. There is one for every
// notification, and what it is good for is over with the state that others read.
func (p Push) sentClaimKept(retention Retention) time.Duration {
	if p.ClaimID != "" {
		return idempotencyKept
	}
	return retention.Dead
}

// Windowed reports whether the push has a time of its own to wait for.
func (p Push) Windowed() bool { return p.CronExpression != "" }

// due is the moment from which lifetimes in Redis are counted.
func (p Push) due() Millis { return max(p.CreatedAt, p.DueAt) }

// encode returns the payload: what encoding/json makes of the push without its trace, at
// a third of the time. Characters such as & and < stay as they are.
func (p Push) encode() ([]byte, error) {
	const namesAndNumbers = 192
	payload := make([]byte, 0, namesAndNumbers+len(p.Platform)+len(p.MessagePrototypeKey)+len(p.PushKey)+len(p.Message)+len(p.CronExpression)+len(p.TimeZone)+len(p.Notification))
	separator := byte('{')
	name := func(name string) {
		payload = append(payload, separator, '"')
		payload = append(payload, name...)
		payload = append(payload, '"', ':')
		separator = ','
	}
	for _, field := range [...]struct {
		name, text string
	}{
		{"platform", p.Platform},
		{"messagePrototypeKey", p.MessagePrototypeKey},
		{"pushKey", p.PushKey},
		{"message", p.Message},
		{"cronExpression", p.CronExpression},
		{"timeZone", p.TimeZone},
	} {
		if field.text == "" {
			continue
		}
		name(field.name)
		var err error
		if payload, err = jsontext.AppendQuote(payload, field.text); err != nil {
			return nil, fmt.Errorf("encode push %s: %s: %w", p.ID, field.name, err)
		}
	}
	name("createdAt")
	payload = strconv.AppendInt(payload, int64(p.CreatedAt), 10)
	if p.DueAt != 0 {
		name("dueAt")
		payload = strconv.AppendInt(payload, int64(p.DueAt), 10)
	}
	if p.Held {
		name("held")
		payload = append(payload, "true"...)
	}
	if p.ClaimID != "" {
		name("claimId")
		payload, _ = jsontext.AppendQuote(payload, p.ClaimID) // the form of an id
	}
	if len(p.Notification) > 0 {
		name("notification")
		payload = append(payload, p.Notification...)
	}
	return append(payload, '}'), nil
}

// content is what the record has of the push.
func (p Push) content() ([]byte, error) {
	payload, err := p.encode()
	if err != nil || p.Trace == (tracing.Trace{}) {
		return payload, err
	}
	trace, err := json.Marshal(p.Trace)
	if err != nil {
		return nil, fmt.Errorf("encode the trace of push %s: %w", p.ID, err)
	}
	content := append(payload[:len(payload)-1], `,"trace":`...)
	return append(append(content, trace...), '}'), nil
}

// DecodePush reads the payload of the task with the given id.
func DecodePush(id string, payload []byte) (Push, error) {
	push := Push{}
	if err := json.Unmarshal(payload, &push); err != nil {
		return Push{ID: id}, fmt.Errorf("decode the payload of push %s: %w", id, err)
	}
	push.ID = id
	return push, nil
}

// pushOf reads the push of a task. Also with an error it has its id and its trace.
func pushOf(id string, task *asynq.TaskInfo) (Push, error) {
	push, err := DecodePush(id, task.Payload)
	push.Trace = TraceOf(task.Headers)
	return push, err
}

// Millis is an instant in milliseconds since 1970 UTC, the resolution in which
// pushq stores and shows times.
type Millis int64

// MillisOf drops what is finer than a millisecond.
func MillisOf(t time.Time) Millis { return Millis(t.UnixMilli()) }

// Time returns the instant in UTC.
func (m Millis) Time() time.Time { return time.UnixMilli(int64(m)).UTC() }
