package fcm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/handlers"
	"pushq/internal/breaker"
	"pushq/internal/template"
	"pushq/internal/templatesim"
	"pushq/tasks"
)

func notificationFor(code string, variables map[string]string) tasks.Notification {
	return tasks.Notification{
		TraceID: "a3f5b9c1-2d4e-4a5f-9b2c-7e8d9f1a2b3c", Recipient: "token", TemplateCode: code, Language: "en", Variables: variables,
	}
}

// pushFor is a push as its sender has written it.
func pushFor(t *testing.T, code string, variables map[string]any) tasks.Push {
	message, err := json.Marshal(map[string]any{
		"trace_id": "a3f5b9c1-2d4e-4a5f-9b2c-7e8d9f1a2b3c", "idempotency_key": "notif_1", "user_id": "user",
		"notification_type": "push", "recipient": "token", "template_code": code, "variables": variables, "language": "en",
		"metadata": map[string]any{},
	})
	require.NoError(t, err)
	return tasks.Push{ID: "01JB0000000000000000000000", Notification: message}
}

func TestCompose(t *testing.T) {
	t.Parallel()
	welcome := template.Template{Code: "welcome", Content: template.Content{Title: "Hi {{name}}", Body: "<b>&{{ name }}</b> 👋"}}
	for _, test := range []struct {
		variables map[string]string
		want      Message
	}{
		{map[string]string{"name": "{{other}}", "other": "no"}, Message{
			Token: "token", Title: "Hi {{other}}", Body: "<b>&{{other}}</b> 👋",
			Data: map[string]string{"trace_id": "a3f5b9c1-2d4e-4a5f-9b2c-7e8d9f1a2b3c"},
		}},
		{map[string]string{"name": "Ann", "link": "https://example.com/welcome?a=1&b=<2>"}, Message{
			Token: "token", Title: "Hi Ann", Body: "<b>&Ann</b> 👋",
			Data: map[string]string{"trace_id": "a3f5b9c1-2d4e-4a5f-9b2c-7e8d9f1a2b3c", "link": "https://example.com/welcome?a=1&b=<2>"},
		}},
		{map[string]string{"name": "", "link": ""}, Message{
			Token: "token", Title: "Hi ", Body: "<b>&</b> 👋",
			Data: map[string]string{"trace_id": "a3f5b9c1-2d4e-4a5f-9b2c-7e8d9f1a2b3c"},
		}},
	} {
		message, err := compose(notificationFor("welcome", test.variables), welcome)
		require.NoError(t, err)
		require.Equal(t, test.want, message)
	}

	for _, test := range []struct {
		content   template.Content
		variables map[string]string
		problem   string
	}{
		{template.Content{Title: "{{b}} {{a}}"}, map[string]string{"link": "x"}, `template welcome: it needs variables that the message does not have: "a", "b"`},
		{template.Content{Body: "{{name"}, nil, "body of template welcome: {{ at byte 0 has no }}"},
		{template.Content{Title: "{{name}}", Body: "{{name}}"}, map[string]string{"name": ""}, "template welcome: title and body are empty with these variables"},
		{template.Content{Title: "{{name}}"}, map[string]string{"name": strings.Repeat("é", 2048)}, "template welcome: the message has 4145 bytes, 44 of them data, and Firebase takes 4096"},
		{template.Content{Title: "Hi"}, map[string]string{"link": strings.Repeat("x", 4096)}, "template welcome: the message has 4151 bytes, 4144 of them data, and Firebase takes 4096"},
	} {
		_, err := compose(notificationFor("welcome", test.variables), template.Template{Code: "welcome", Content: test.content})
		require.EqualError(t, err, test.problem)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	// 4 + 5 bytes are names.
	for text, bytes := range map[string]int{"x": 1, "é": 2, "€": 3, "👋": 4} {
		fits := strings.Repeat(text, (maxPayload-9)/bytes)
		fits += strings.Repeat("y", maxPayload-9-len(fits))
		require.NoError(t, Message{Title: fits[:bytes*500], Body: fits[bytes*500:]}.check(), text)
		require.ErrorContains(t, Message{Title: fits[:bytes*500] + "y", Body: fits[bytes*500:]}.check(), "4097 bytes")
	}
	const keys = len("title") + len("key")
	require.NoError(t, Message{Title: "a", Data: map[string]string{"key": strings.Repeat("x", maxPayload-keys-1)}}.check())
	require.ErrorContains(t, Message{Title: "a", Data: map[string]string{"key": strings.Repeat("x", maxPayload-keys)}}.check(), "4097 bytes, 4091 of them data")

	for _, name := range []string{"from", "gcm", "gcm.n.e", "google", "google.c.a.e", "googleAnalytics"} {
		err := Message{Title: "a", Data: map[string]string{"a": "", name: "x"}}.check()
		require.EqualError(t, err, fmt.Sprintf("data cannot have the key %q: Firebase keeps it for itself", name))
	}
	for _, name := range []string{"From", "fromage", "trace_id", "link", "a.google"} {
		require.NoError(t, Message{Title: "a", Data: map[string]string{name: "x"}}.check(), name)
	}
}

type templatesFunc func(ctx context.Context, code, language string) (template.Template, error)

func (f templatesFunc) Get(ctx context.Context, code, language string) (template.Template, error) {
	return f(ctx, code, language)
}

func TestPrepareAsksForTheTemplate(t *testing.T) {
	t.Parallel()
	var asked []string
	provider := &Provider{Options: Options{Templates: templatesFunc(func(_ context.Context, code, language string) (template.Template, error) {
		asked = append(asked, code, language)
		return template.Template{Code: code, Content: template.Content{Title: "Hi"}}, nil
	})}}
	send, instead := provider.Prepare(t.Context(), pushFor(t, "welcome", map[string]any{"list": []int{}}))
	require.NotNil(t, instead, "a variable is a list")
	require.Nil(t, send)
	require.Equal(t, handlers.Permanent, instead.Verdict)
	require.Equal(t, tasks.ErrorOther, instead.ErrorType)
	require.Empty(t, asked)

	send, instead = provider.Prepare(t.Context(), pushFor(t, "welcome", map[string]any{"number": 7}))
	require.Nil(t, instead)
	require.NotNil(t, send)
	require.Equal(t, []string{"welcome", "en"}, asked)
}

func TestPrepareWithoutATemplate(t *testing.T) {
	t.Parallel()
	open := &breaker.OpenError{Service: "template_service", After: 7 * time.Second}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	for _, test := range []struct {
		err        error
		deadLetter bool
		want       handlers.Outcome
	}{
		{&template.Unusable{Gone: true, Reason: "has none"}, false, handlers.Outcome{
			Verdict: handlers.Permanent, ErrorType: tasks.ErrorTemplate, ErrorMessage: "the template service has none",
		}},
		{&template.Unusable{Reason: "answered 418"}, true, handlers.Outcome{
			Verdict: handlers.Permanent, ErrorType: tasks.ErrorTemplate, ErrorMessage: "the template service answered 418", Alarm: true,
		}},
		{&template.Refusal{Reason: "it answered 401"}, true, handlers.Outcome{
			Verdict: handlers.Permanent, ErrorType: tasks.ErrorTemplate, ErrorMessage: "the template service refuses pushq itself: it answered 401",
			Alarm: true, RefusesPushq: true,
		}},
		{&breaker.LaterError{Service: "template_service", After: 3 * time.Second}, true, handlers.Outcome{
			Verdict: handlers.Postponed, RetryAfter: 3 * time.Second,
			ErrorMessage: "breaker: template_service has failed for it, and is called for others first",
		}},
		{fmt.Errorf("again: %w", open), false, handlers.Outcome{
			Verdict: handlers.Postponed, ErrorMessage: "breaker: template_service is open", RetryAfter: 7 * time.Second,
		}},
		{open, true, handlers.Outcome{
			Verdict: handlers.Permanent, ErrorType: tasks.ErrorOther, ErrorMessage: open.Error(),
		}},
		{context.Cause(stopped), true, handlers.Outcome{Verdict: handlers.Postponed, ErrorMessage: "shutdown"}},
		{errors.New("redis is away"), true, handlers.Outcome{Verdict: handlers.Postponed, ErrorMessage: "breaker: redis is away"}},
	} {
		provider := &Provider{Options: Options{DeadLetter: test.deadLetter, Templates: templatesFunc(
			func(context.Context, string, string) (template.Template, error) { return template.Template{}, test.err },
		)}}
		send, instead := provider.Prepare(t.Context(), pushFor(t, "welcome", map[string]any{}))
		require.Nil(t, send)
		require.Equal(t, &test.want, instead)
	}
}

// Every way in which a template can be wrong ends in a failure that says which. One in which
// its service can be wrong ends no push. None says what people are told.
func TestPrepareWithBadTemplates(t *testing.T) {
	t.Parallel()
	simulator := templatesim.New(templatesim.Config{Templates: []templatesim.Template{
		{Code: "email", Language: "en", Type: "email", Content: templatesim.Content{Title: "Hi", Body: "there"}},
		{Code: "long", Language: "en", Type: "push", Content: templatesim.Content{Title: strings.Repeat("x", 5000)}},
	}})
	url, err := simulator.Start("127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, simulator.Close()) })
	providerWaiting := func(timeout time.Duration) *Provider {
		client := template.NewClient(template.Options{URL: url, Timeout: timeout, Tries: 3, Backoff: time.Millisecond})
		return &Provider{Options: Options{Templates: template.NewCache(client, time.Minute, time.Hour)}}
	}
	provider := providerWaiting(time.Minute)

	const secret = "my-secret-text"
	variables := map[string]any{"name": secret, "link": "https://example.com/" + secret}
	for code, problem := range map[string]string{
		"nothing":                         "no template nothing in language en",
		"notfound-welcome_notification":   "no template",
		"other-welcome_notification":      "its code is",
		"unclosed-welcome_notification":   "has no }}",
		"unnamed-welcome_notification":    "cannot be the name of a variable",
		"nested-welcome_notification":     "cannot be the name of a variable",
		"undeclared-welcome_notification": `does not have: "undeclared"`,
		"password_reset":                  `does not have: "code", "minutes"`,
		"email":                           "its type",
		"long":                            "Firebase takes 4096",
	} {
		send, instead := provider.Prepare(t.Context(), pushFor(t, code, variables))
		require.Nil(t, send, code)
		require.Equal(t, handlers.Permanent, instead.Verdict, code)
		require.Equal(t, tasks.ErrorTemplate, instead.ErrorType, code)
		require.Contains(t, instead.ErrorMessage, problem, code)
		require.NotContains(t, instead.ErrorMessage, secret, code)
		require.Less(t, len(instead.ErrorMessage), 300, code)
	}
	for trouble, alarm := range map[string]bool{
		"unavailable": false, "429": false, "reset": false, "slow": false,
		"html": true, "shape": true, "cut": true, "huge": false, "html404": true,
	} {
		before := simulator.Stats().Requests
		if trouble == "slow" {
			provider = providerWaiting(2 * time.Second) // less than it takes
		}
		_, instead := provider.Prepare(t.Context(), pushFor(t, trouble+"-welcome_notification", variables))
		provider = providerWaiting(time.Minute)
		require.Equal(t, handlers.Retryable, instead.Verdict, trouble)
		require.Equal(t, tasks.ErrorTemplate, instead.ErrorType, trouble)
		require.Equal(t, alarm, instead.Alarm, trouble)
		require.Contains(t, instead.ErrorMessage, "the template service is not available", trouble)
		require.NotContains(t, instead.ErrorMessage, secret, trouble)
		require.Equal(t, before+3, simulator.Stats().Requests, trouble)
	}
	for _, trouble := range []string{"302", "401", "403", "407"} {
		before := simulator.Stats().Requests
		_, instead := provider.Prepare(t.Context(), pushFor(t, trouble+"-welcome_notification", variables))
		require.True(t, instead.RefusesPushq, trouble)
		require.True(t, instead.Alarm, trouble)
		require.Contains(t, instead.ErrorMessage, "the template service refuses pushq itself: it answered "+trouble, trouble)
		require.Equal(t, before+1, simulator.Stats().Requests, trouble)
	}
	for _, code := range []string{"welcome_notification", "flaky-welcome_notification", "unavailablex2-welcome_notification"} {
		send, instead := provider.Prepare(t.Context(), pushFor(t, code, variables))
		require.Nil(t, instead, code)
		require.NotNil(t, send, code)
	}

	stopped, stop := context.WithCancel(t.Context())
	stop()
	_, instead := provider.Prepare(stopped, pushFor(t, "hang-welcome_notification", variables))
	require.Equal(t, &handlers.Outcome{Verdict: handlers.Postponed, ErrorMessage: "shutdown"}, instead)
}
