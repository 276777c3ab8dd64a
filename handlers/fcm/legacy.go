package fcm

import (
	"context"

	"pushq/handlers"
)

// The request of the legacy protocol.
type legacyRequest struct {
	To           string            `json:"to"`
	Notification notification      `json:"notification"`
	Data         map[string]string `json:"data,omitempty"`
}

func (p *Provider) sendLegacy(ctx context.Context, message Message) handlers.Outcome {
	body := encode(legacyRequest{
		To:           message.Token,
		Notification: notification{Title: message.Title, Body: message.Body},
		Data:         message.Data,
	})
	answer, unanswered := p.post(ctx, body, "key="+p.ServerKey)
	if unanswered != nil {
		return noAnswer(unanswered)
	}
	return masked(p.judgeLegacy(answer), p.ServerKey)
}
