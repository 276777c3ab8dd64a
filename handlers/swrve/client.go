// Package swrve sends pushes through the Swrve Push API, one request per user:
// a form with the campaign's push_key, the user and the message.
package swrve

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"pushq/handlers"
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

const (
	maxAnswer     = 64 << 10
	frozenBy      = 100 * time.Millisecond // a timeout that fires this much late
	frozenMercy   = time.Second            // gives an answer that is here already this long to be read
	idleTimeout   = 50 * time.Second
	maxHeaderSize = 32 << 10
	maskedKey     = "[push_key]"
)

// Client sends pushes to Swrve. It is safe for concurrent use.
type Client struct {
	Config
	transport *http.Transport
}

// New returns a client. Close releases its connections.
func New(config Config) *Client {
	transport := &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: config.Timeout, KeepAlive: 15 * time.Second}).DialContext,
		MaxIdleConns:           config.Connections,
		MaxIdleConnsPerHost:    config.Connections,
		IdleConnTimeout:        idleTimeout,
		TLSHandshakeTimeout:    config.Timeout,
		MaxResponseHeaderBytes: maxHeaderSize,
		DisableCompression:     true,
		// One connection per request under way: HTTP/2's limit of streams on a
		// connection would delay starts behind answers.
		TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{},
	}
	return &Client{Config: config, transport: transport}
}

// Close closes idle connections.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// MaxDuration is the longest that one send takes.
func (c *Client) MaxDuration() time.Duration { return c.Timeout + frozenMercy }

// Prepare looks the push key up.
func (c *Client) Prepare(push tasks.Push) (send func() handlers.Outcome, impossible *handlers.Outcome) {
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
	body := form.Encode()
	return func() handlers.Outcome {
		outcome := c.send(body)
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

func (c *Client) send(form string) handlers.Outcome {
	var connected atomic.Bool
	ctx, cancel := context.WithCancelCause(httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	}))
	defer cancel(nil)
	deadline := time.Now().Add(c.Timeout)
	expire := time.AfterFunc(c.Timeout, func() {
		if time.Since(deadline) > frozenBy {
			// The process was frozen; an answer may have arrived meanwhile.
			select {
			case <-time.After(frozenMercy):
			case <-ctx.Done():
			}
		}
		cancel(errTimeout)
	})
	defer expire.Stop()

	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL, strings.NewReader(form))
	if err != nil {
		return handlers.Outcome{Verdict: handlers.Permanent, ErrorType: tasks.ErrorOther, ErrorMessage: "swrve.url: " + err.Error()}
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", "pushq")

	// A redirect is an answer like any other: the transport follows none.
	response, err := c.transport.RoundTrip(request)
	if err != nil {
		return c.noAnswer(ctx, err, connected.Load())
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode < http.StatusOK {
		// 101: the connection is no longer HTTP, and its end is not in sight.
		return c.judge(response.StatusCode, response.Header, nil)
	}
	// An answer cut off in its body still has its status, and reading to the
	// end keeps the connection.
	body, _ := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	return c.judge(response.StatusCode, response.Header, body)
}

var errTimeout = errors.New("no answer in time")

// noAnswer is the outcome of a request that was not answered. Once there was a
// connection, the provider may have got it.
func (c *Client) noAnswer(ctx context.Context, err error, connected bool) handlers.Outcome {
	outcome := handlers.Outcome{
		Verdict: handlers.Permanent, ErrorType: tasks.ErrorOther, MaybeDelivered: connected,
	}
	if c.RetryNetworkErrors {
		outcome.Verdict = handlers.Retryable
	}
	outcome.ErrorMessage = "no answer: " + err.Error()
	if errors.Is(context.Cause(ctx), errTimeout) {
		outcome.ErrorMessage = fmt.Sprintf("no answer: timeout after %s", c.Timeout)
	}
	if connected {
		outcome.ErrorMessage += " (it may have been delivered)"
	}
	return outcome
}

// judge is the outcome of an answer.
func (c *Client) judge(status int, header http.Header, body []byte) handlers.Outcome {
	code, message := readBody(body)
	if success(status) && code >= 400 && code <= 599 {
		status = code // the answer contradicts itself: believe the bad news
	}
	if success(status) {
		return handlers.Outcome{Verdict: handlers.Delivered}
	}
	outcome := handlers.Outcome{
		Verdict: handlers.Permanent, ErrorType: tasks.ErrorSwrve, ErrorCode: status, ErrorMessage: message,
	}
	if slices.Contains(c.RetryStatuses, status) {
		outcome.Verdict = handlers.Retryable
	}
	outcome.Throttled = status == http.StatusTooManyRequests
	if outcome.Throttled || outcome.Verdict == handlers.Retryable {
		outcome.RetryAfter = min(retryAfter(header.Get("Retry-After"), time.Now()), c.MaxRetryAfter)
	}
	return outcome
}

func success(status int) bool { return status >= 200 && status < 300 }

var _ handlers.Provider = (*Client)(nil)
