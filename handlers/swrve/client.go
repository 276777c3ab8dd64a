// Package swrve sends pushes through the Swrve Push API, one request per user:
// a form with the campaign's push_key, the user and the message.
package swrve

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"pushq/handlers"
	"pushq/internal/exchange"
	"pushq/internal/tracing"
	"pushq/tasks"
)

// Config of a Client.
type Config struct {
	URL     string
	Timeout time.Duration // of one request, from connecting to the last byte of the answer
	Test    bool          // sends test=1
	// Connections is the number of connections kept alive: the number of
	// requests that may be under way at once.
	Connections int
	// RetryStatuses are the provider's statuses after which another attempt may
	// succeed.
	RetryStatuses []int
	// RetryNetworkErrors makes requests without an answer retryable.
	RetryNetworkErrors bool
	// MaxRetryAfter caps what the provider asks to wait.
	MaxRetryAfter time.Duration
	// PushKeys maps a message prototype and a platform to the push_key of a
	// campaign, which is a secret.
	PushKeys map[string]map[string]string
}

const maskedKey = "[push_key]"

// Client sends pushes to Swrve. It is safe for concurrent use.
type Client struct {
	Config
	exchange *exchange.Client
}

// New returns a client. Close releases its connections.
func New(config Config) *Client {
	return &Client{Config: config, exchange: exchange.New(exchange.Options{
		Timeout: config.Timeout, Connections: config.Connections,
	})}
}

// Close closes idle connections.
func (c *Client) Close() { c.exchange.Close() }

// MaxDuration is the longest that one send takes.
func (c *Client) MaxDuration() time.Duration { return c.exchange.MaxDuration() }

// Prepare looks the push key up.
func (c *Client) Prepare(ctx context.Context, push tasks.Push) (send func() handlers.Outcome, instead *handlers.Outcome) {
	key := c.PushKeys[push.MessagePrototypeKey][push.Platform]
	if key == "" {
		return nil, &handlers.Outcome{
			Verdict:   handlers.Permanent,
			ErrorType: tasks.ErrorMessagePrototypeKey,
			ErrorMessage: fmt.Sprintf("no push key for prototype %q on %s: add it to swrve.messagePrototypePushKeys, restart the workers, and retry the push",
				push.MessagePrototypeKey, push.Platform),
		}
	}
	form := url.Values{"push_key": {key}, "user": {push.PushKey}, "message": {push.Message}}
	if c.Test {
		form.Set("test", "1")
	}
	body, sending := form.Encode(), tracing.Detached(ctx)
	return func() handlers.Outcome {
		outcome := c.send(sending, body)
		if outcome.ErrorMessage != "" {
			outcome.ErrorMessage = withoutKey(outcome.ErrorMessage, key)
		}
		return outcome
	}, nil
}

// withoutKey takes the push key out of a text that may quote the request: the
// text is stored, and shown to everybody who looks at the push.
func withoutKey(text, key string) string {
	return strings.NewReplacer(key, maskedKey, url.QueryEscape(key), maskedKey, url.PathEscape(key), maskedKey).Replace(text)
}

func (c *Client) send(ctx context.Context, form string) handlers.Outcome {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL, strings.NewReader(form))
	if err != nil {
		return handlers.Outcome{Verdict: handlers.Permanent, ErrorType: tasks.ErrorOther, ErrorMessage: "swrve.url: " + err.Error()}
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", "pushq")
	answer, unanswered := c.exchange.Do(request)
	if unanswered != nil {
		return c.noAnswer(unanswered)
	}
	return c.judge(answer)
}

// noAnswer is the outcome of a request that was not answered.
func (c *Client) noAnswer(unanswered *exchange.NoAnswer) handlers.Outcome {
	outcome := handlers.Outcome{
		Verdict: handlers.Permanent, ErrorType: tasks.ErrorOther,
		ErrorMessage: unanswered.Reason, MaybeDelivered: unanswered.MaybeDelivered,
	}
	if c.RetryNetworkErrors {
		outcome.Verdict = handlers.Retryable
	}
	return outcome
}

// judge is the outcome of an answer. A refusal of Swrve's has the meaning of its status,
// whatever its body is: it may be blank, or a text that is not JSON.
func (c *Client) judge(answer exchange.Answer) handlers.Outcome {
	status := answer.Status
	if exchange.Success(status) {
		meant, known := statusOf(answer)
		switch {
		case !known:
			return foreign(answer)
		case meant < http.StatusBadRequest:
			return handlers.Outcome{Verdict: handlers.Delivered}
		}
		status = meant // the answer contradicts itself: believe the bad news
	} else if c.byAnother(answer) {
		return foreign(answer)
	}
	outcome := handlers.Outcome{
		Verdict: handlers.Permanent, ErrorType: tasks.ErrorSwrve, ErrorCode: status, ErrorMessage: messageOf(answer),
	}
	if c.retries(status) {
		outcome.Verdict = handlers.Retryable
	}
	outcome.Throttled = status == http.StatusTooManyRequests
	outcome.RefusesPushq = refusesPushq(status)
	outcome.Alarm = outcome.RefusesPushq
	if outcome.Throttled || outcome.Verdict == handlers.Retryable {
		outcome.RetryAfter = min(exchange.RetryAfter(answer.Header, time.Now()), c.MaxRetryAfter)
	}
	return outcome
}

func (c *Client) retries(status int) bool { return slices.Contains(c.RetryStatuses, status) }

// refusesPushq reports whether a status is about pushq and no push. Swrve documents 403 for a
// key that it does not take. A 401 can mean nothing else.
func refusesPushq(status int) bool {
	return status == http.StatusUnauthorized || status == http.StatusForbidden
}

// byAnother reports whether an answer that is no success would end pushes although Swrve
// cannot have given it: a redirect, as to a sign-in, or the page of a proxy. A page with a
// status that ends no push has the meaning of the status, and 429 asks to be slower, whoever
// says it.
func (c *Client) byAnother(answer exchange.Answer) bool {
	status := answer.Status
	return status < http.StatusBadRequest || answer.Page() && status != http.StatusTooManyRequests && !c.retries(status)
}

// foreign is the outcome of an answer that Swrve cannot have given. Who has sent a success
// may have passed the push on.
func foreign(answer exchange.Answer) handlers.Outcome {
	whose, success := "Swrve's, see swrve.url", exchange.Success(answer.Status)
	if success {
		whose += " (it may have been delivered)"
	}
	return handlers.Outcome{
		Verdict: handlers.Retryable, ErrorType: tasks.ErrorOther, ErrorCode: answer.Status,
		ErrorMessage: answer.Foreign(whose), MaybeDelivered: success, ServiceFailed: true,
		RefusesPushq: refusesPushq(answer.Status), Alarm: !answer.Cut,
	}
}

var _ handlers.Provider = (*Client)(nil)
