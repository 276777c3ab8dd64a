package fcm

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"pushq/handlers"
	"pushq/internal/template"
	"pushq/internal/tracing"
	"pushq/tasks"
)

// Message is what one device gets.
type Message struct {
	Token, Title, Body string
	Data               map[string]string // for the app
}

// Prepare gets the template of the push, and makes the message of it.
func (p *Provider) Prepare(ctx context.Context, push tasks.Push) (send func() handlers.Outcome, instead *handlers.Outcome) {
	notification, err := tasks.ParseNotification(push.Notification)
	if err != nil { // it has been accepted by other rules
		return nil, &handlers.Outcome{Verdict: handlers.Permanent, ErrorType: tasks.ErrorOther, ErrorMessage: err.Error()}
	}
	found, err := p.Templates.Get(ctx, notification.TemplateCode, notification.Language)
	if err != nil {
		outcome := p.withoutTemplate(err)
		return nil, &outcome
	}
	message, err := compose(notification, found)
	if err != nil {
		return nil, &handlers.Outcome{Verdict: handlers.Permanent, ErrorType: tasks.ErrorTemplate, ErrorMessage: err.Error()}
	}
	sending := tracing.Detached(ctx)
	return func() handlers.Outcome { return p.send(sending, message) }, nil
}

// withoutTemplate is the outcome of a push whose template cannot be had.
func (p *Provider) withoutTemplate(err error) handlers.Outcome {
	var unusable *template.Unusable
	var unavailable *template.Unavailable
	var refusal *template.Refusal
	switch {
	case errors.As(err, &refusal):
		return handlers.Outcome{
			Verdict: handlers.Permanent, ErrorType: tasks.ErrorTemplate, ErrorMessage: err.Error(),
			Alarm: true, RefusesPushq: true,
		}
	case errors.As(err, &unusable):
		return handlers.Outcome{
			Verdict: handlers.Permanent, ErrorType: tasks.ErrorTemplate, ErrorMessage: err.Error(),
			Alarm: !unusable.Gone, // all templates may be like that
		}
	case errors.As(err, &unavailable):
		return handlers.Outcome{
			Verdict: handlers.Retryable, ErrorType: tasks.ErrorTemplate, ErrorMessage: err.Error(), Alarm: unavailable.Alarm,
		}
	default:
		return handlers.Refused(err, p.DeadLetter)
	}
}

// The variable that the app gets too, and the names under which it gets things.
const (
	linkVariable = "link"
	dataTraceID  = "trace_id"
	dataLink     = "link"
)

// compose makes the message. Its error is about the template and the variables, and the
// same each time.
func compose(notification tasks.Notification, found template.Template) (Message, error) {
	content, err := found.Render(notification.Variables)
	if err != nil {
		return Message{}, err
	}
	message := Message{
		Token: notification.Recipient, Title: content.Title, Body: content.Body,
		Data: map[string]string{dataTraceID: notification.TraceID},
	}
	if link := notification.Variables[linkVariable]; link != "" {
		message.Data[dataLink] = link
	}
	if err := message.check(); err != nil {
		return Message{}, fmt.Errorf("template %s: %w", found.Code, err)
	}
	return message, nil
}

// maxPayload is Firebase's limit for a message to a device, keys and values of
// notification and data together.
const maxPayload = 4096

// check finds what Firebase would refuse.
func (m Message) check() error {
	if m.Title == "" && m.Body == "" {
		return errors.New("title and body are empty with these variables")
	}
	notification := sizeOf("title", m.Title) + sizeOf("body", m.Body)
	data := 0
	for _, name := range slices.Sorted(maps.Keys(m.Data)) {
		if reserved(name) {
			return fmt.Errorf("data cannot have the key %q: Firebase keeps it for itself", name)
		}
		data += sizeOf(name, m.Data[name])
	}
	if size := notification + data; size > maxPayload {
		return fmt.Errorf("the message has %d bytes, %d of them data, and Firebase takes %d", size, data, maxPayload)
	}
	return nil
}

// sizeOf counts bytes of UTF-8.
func sizeOf(name, value string) int {
	if value == "" {
		return 0
	}
	return len(name) + len(value)
}

func reserved(name string) bool {
	return name == "from" || strings.HasPrefix(name, "gcm") || strings.HasPrefix(name, "google")
}
