package fcm

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"pushq/handlers"
	"pushq/internal/exchange"
	"pushq/tasks"
)

// send sends a message to its device.
func (p *Provider) send(ctx context.Context, message Message) handlers.Outcome {
	if p.Mode == Legacy {
		return p.sendLegacy(ctx, message)
	}
	return p.sendV1(ctx, message)
}

// post makes a request with a JSON body.
func (p *Provider) post(ctx context.Context, body []byte, authorization string) (exchange.Answer, *exchange.NoAnswer) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.endpoint, bytes.NewReader(body))
	if err != nil { // New has tried the URL
		return exchange.Answer{}, &exchange.NoAnswer{Reason: "fcm.url: " + err.Error()}
	}
	request.Header.Set("Content-Type", "application/json; charset=utf-8")
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", "pushq")
	request.Header.Set("Authorization", authorization)
	// Google's own clients ask by this for errors with details.
	request.Header.Set("X-GOOG-API-FORMAT-VERSION", "2")
	return p.exchange.Do(request)
}

// encode leaves < > & as they are. Texts can always be encoded.
func encode(body any) []byte {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(body)
	return text.Bytes()
}

// noAnswer is the outcome of a request that was not answered.
func noAnswer(unanswered *exchange.NoAnswer) handlers.Outcome {
	return handlers.Outcome{
		Verdict: handlers.Retryable, ErrorType: tasks.ErrorOther,
		ErrorMessage: unanswered.Reason, MaybeDelivered: unanswered.MaybeDelivered,
		ServiceFailed: true,
	}
}

// masked takes a secret out of an outcome whose text may quote the request: it is
// stored, and shown to everybody who looks at the push.
func masked(outcome handlers.Outcome, secret string) handlers.Outcome {
	outcome.ErrorMessage = strings.ReplaceAll(outcome.ErrorMessage, secret, "[secret]")
	return outcome
}
