package fcm

import (
	"context"
	"errors"
	"time"

	"pushq/handlers"
	"pushq/tasks"
)

// The request of HTTP v1 (firebase.google.com/docs/reference/fcm/rest/v1/projects.messages).
type v1Request struct {
	Message v1Message `json:"message"`
}

type v1Message struct {
	Token        string            `json:"token"`
	Notification notification      `json:"notification"`
	Data         map[string]string `json:"data,omitempty"`
}

// notification is the same in both forms of the API.
type notification struct {
	Title string `json:"title,omitempty"`
	Body  string `json:"body,omitempty"`
}

// sendV1 repeats a request once, with a new access token, if the one it had is refused.
// If there is no time for that, the next attempt has the new token. All together takes
// no longer than a request and two fetches of a token.
func (p *Provider) sendV1(ctx context.Context, message Message) handlers.Outcome {
	body := encode(v1Request{v1Message{
		Token:        message.Token,
		Notification: notification{Title: message.Title, Body: message.Body},
		Data:         message.Data,
	}})
	repeatBefore := time.Now().Add(p.tokens.timeout)
	token, err := p.tokens.get()
	if err != nil {
		return noToken(err)
	}
	answer, unanswered := p.post(ctx, body, "Bearer "+token)
	if unanswered == nil && tokenRefused(answer) {
		if token, err = p.tokens.renew(token); err != nil {
			return noToken(err)
		}
		if time.Now().After(repeatBefore) {
			outcome := refusal(answer.Status, "the access token was refused; the next attempt has a new one")
			// The token was refused, and not pushq: only the next attempt shows more.
			outcome.Verdict, outcome.Inconclusive = handlers.Retryable, true
			return outcome
		}
		answer, unanswered = p.post(ctx, body, "Bearer "+token)
	}
	if unanswered != nil {
		return noAnswer(unanswered)
	}
	return masked(p.judgeV1(answer), token)
}

// noToken is the outcome of a push for which there is no access token. It may get one
// later, also if the service account was refused: that may be an old key or a wrong clock
// in this process only, which fails at once and so would take most of the pushes.
func noToken(err error) handlers.Outcome {
	outcome := handlers.Outcome{
		Verdict: handlers.Retryable, ErrorType: tasks.ErrorFCM, ErrorMessage: err.Error(), ServiceFailed: true,
	}
	var failed *tokenError
	if errors.As(err, &failed) && failed.refused {
		outcome.Alarm = true
	}
	return outcome
}
