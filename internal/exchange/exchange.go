// Package exchange makes HTTP requests of which it matters what may have become of them
// when there is no answer: a push that a provider may have taken is not sent again
// lightly.
package exchange

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"pushq/internal/tracing"
)

// Options of a Client.
type Options struct {
	Timeout time.Duration // of one request, from connecting to the last byte of the answer
	// Connections is the number of connections kept alive: the number of
	// requests that may be under way at once.
	Connections int
	// HTTP2 lets requests under way share a connection. Without it each has its own:
	// HTTP/2's limit of streams on a connection may delay starts behind answers.
	HTTP2 bool
}

const (
	maxAnswer     = 64 << 10
	frozenBy      = 100 * time.Millisecond // a timeout that fires this much late
	frozenMercy   = time.Second            // gives an answer that is here already this long to be read
	idleTimeout   = usualTurn
	maxHeaderSize = 32 << 10

	// An HTTP/2 connection that has been silent is asked whether it still works, and
	// given up if it does not tell: every request would be sent on it and time out.
	silence      = 10 * time.Second
	pingPatience = 5 * time.Second
)

// Client makes requests. It is safe for concurrent use.
type Client struct {
	Options
	transports *transports
	dial       func(ctx context.Context, network, address string) (net.Conn, error)
}

// New returns a client. Close releases its connections.
func New(options Options) *Client {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(options.HTTP2)
	c := &Client{Options: options, dial: (&net.Dialer{Timeout: options.Timeout, KeepAlive: 15 * time.Second}).DialContext}
	c.transports = newTransports(func() *http.Transport {
		return &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            c.dial,
			MaxIdleConns:           options.Connections,
			MaxIdleConnsPerHost:    options.Connections,
			IdleConnTimeout:        idleTimeout,
			TLSHandshakeTimeout:    options.Timeout,
			MaxResponseHeaderBytes: maxHeaderSize,
			DisableCompression:     true,
			Protocols:              protocols,
			HTTP2:                  &http.HTTP2Config{SendPingTimeout: silence, PingTimeout: pingPatience},
		}
	})
	return c
}

// Close closes idle connections.
func (c *Client) Close() { c.transports.close() }

// MaxDuration is the longest that one request takes.
func (c *Client) MaxDuration() time.Duration { return c.Timeout + frozenMercy }

// An Answer is what the other side said.
type Answer struct {
	Status int
	Header http.Header
	// Body has the first 64 KiB. Cut says that it has more, or broke off before its end.
	Body []byte
	Cut  bool
}

// NoAnswer is why there is none.
type NoAnswer struct {
	Reason string
	// MaybeDelivered says that the other side may have got the request.
	MaybeDelivered bool
}

// Do makes a request. Nothing but the timeout ends it, the request's context neither:
// nothing may cut a request off that is on the wire. A redirect is an answer like any
// other. The request gets the headers of the trace that its context has.
func (c *Client) Do(request *http.Request) (answer Answer, unanswered *NoAnswer) {
	answered := tracing.Request(request)
	defer func() { answered(answer.Status) }()
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

	// The transport follows no redirects.
	response, err := c.transports.choose().RoundTrip(request.WithContext(ctx))
	if err != nil {
		return Answer{}, c.noAnswer(ctx, err, connected.Load())
	}
	defer func() { _ = response.Body.Close() }()
	answer = Answer{Status: response.StatusCode, Header: response.Header}
	if response.StatusCode < http.StatusOK {
		// 101: the connection is no longer HTTP, and its end is not in sight.
		return answer, nil
	}
	// An answer cut off in its body still has its status, and reading to the
	// end keeps the connection.
	answer.Body, answer.Cut = ReadBody(response, maxAnswer)
	return answer, nil
}

// ReadBody reads so many bytes of a body at most, and reports whether that is not all of it.
func ReadBody(response *http.Response, most int) (body []byte, cut bool) {
	body, err := io.ReadAll(io.LimitReader(response.Body, int64(most)+1))
	if len(body) > most {
		return body[:most], true
	}
	return body, err != nil
}

var errTimeout = errors.New("no answer in time")

// noAnswer explains a request that was not answered. Once there was a connection, the
// other side may have got it.
func (c *Client) noAnswer(ctx context.Context, err error, connected bool) *NoAnswer {
	reason := "no answer: " + err.Error()
	if errors.Is(context.Cause(ctx), errTimeout) {
		reason = fmt.Sprintf("no answer: timeout after %s", c.Timeout)
	}
	if connected {
		reason += " (it may have been delivered)"
	}
	return &NoAnswer{Reason: reason, MaybeDelivered: connected}
}
