// Package fcm sends pushes through Firebase Cloud Messaging: one request per device, with
// title and body from a template. Mode v1 is Firebase's HTTP v1 API; mode legacy is the
// one before it, which Google has shut down and some gateways still take.
package fcm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"pushq/handlers"
	"pushq/internal/exchange"
	"pushq/internal/serviceaccount"
	"pushq/internal/template"
)

// What Options.Mode may be.
const (
	V1     = "v1"
	Legacy = "legacy"
)

// Templates is where the texts come from (template.Cache).
type Templates interface {
	Get(ctx context.Context, code, language string) (template.Template, error)
}

// Options of a Provider.
type Options struct {
	Mode string
	URL  string // of Firebase, or the gateway, without a path of its own
	// Project is the Firebase project in mode v1. Empty takes that of ServiceAccount.
	Project string
	// ServiceAccount is the key file of a service account, for mode v1: a secret.
	ServiceAccount []byte
	// ServerKey is for mode legacy: a secret.
	ServerKey string
	Timeout   time.Duration // of one request, from connecting to the last byte of the answer
	// Connections is the number of connections kept alive: the number of
	// requests that may be under way at once.
	Connections int
	// MaxRetryAfter caps what Firebase asks to wait.
	MaxRetryAfter time.Duration
	// DropMalformed takes a token that Firebase calls not valid for a dead one. It has
	// no code for that, only a text.
	DropMalformed bool
	// DeadLetter ends the pushes for which the template service's open circuit breaker
	// gives no template, instead of letting them wait.
	DeadLetter bool
	Templates  Templates
	// OnTokenFetch is called after each request for an access token with what came of it:
	// one of metrics' outcomes of fetches. It may be nil.
	OnTokenFetch func(outcome string)
	Log          *slog.Logger
}

// Provider sends pushes to Firebase. It is safe for concurrent use.
type Provider struct {
	Options
	endpoint string
	exchange *exchange.Client
	tokens   *tokenSource // nil in mode legacy
}

// New returns a provider, or says which setting is wrong. Nothing is sent before the
// first push. Close releases what it has.
func New(options Options) (*Provider, error) {
	base, err := url.Parse(options.URL)
	if err != nil {
		return nil, fmt.Errorf("fcm.url: %w", err)
	}
	if base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return nil, errors.New("fcm.url: must be an http or https URL")
	}
	p := &Provider{Options: options, exchange: exchange.New(exchange.Options{
		Timeout: options.Timeout, Connections: options.Connections, HTTP2: true,
	})}
	root := strings.TrimSuffix(options.URL, "/")
	switch options.Mode {
	case V1:
		account, err := serviceaccount.Read(options.ServiceAccount)
		if err != nil {
			return nil, fmt.Errorf("fcm.serviceAccount: %w", err)
		}
		project := cmp.Or(options.Project, account.ProjectID)
		if project == "" {
			return nil, errors.New("fcm.project: must be set, fcm.serviceAccount names none")
		}
		p.endpoint = root + "/v1/projects/" + url.PathEscape(project) + "/messages:send"
		p.tokens = newTokenSource(account, options.Log)
		p.tokens.onFetch = options.OnTokenFetch
	case Legacy:
		if options.ServerKey == "" {
			return nil, errors.New("fcm.serverKey: must be set in mode legacy")
		}
		p.endpoint = root + "/fcm/send"
	default:
		return nil, fmt.Errorf("fcm.mode: %q is neither v1 nor legacy", options.Mode)
	}
	return p, nil
}

// MaxDuration is the longest that one send takes.
func (p *Provider) MaxDuration() time.Duration {
	if p.tokens == nil {
		return p.exchange.MaxDuration()
	}
	return p.exchange.MaxDuration() + 2*p.tokens.timeout // see sendV1
}

// MaxDuration is the longest that one send takes whose requests have the timeout, in
// whichever mode.
func MaxDuration(timeout time.Duration) time.Duration {
	client := exchange.New(exchange.Options{Timeout: timeout})
	defer client.Close()
	return client.MaxDuration() + 2*tokenTimeout
}

// Close closes idle connections, and gives up fetching an access token.
func (p *Provider) Close() {
	if p.tokens != nil {
		p.tokens.close()
	}
	p.exchange.Close()
}

var _ handlers.Provider = (*Provider)(nil)
