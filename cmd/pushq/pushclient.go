package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"pushq/internal/certificates"
)

// pushClient calls the HTTP API, one call after the other over one connection.
type pushClient struct {
	server string
	key    string
	tls    certificates.Files

	transport *http.Transport // nil before the first call
}

const (
	clientTimeout = 30 * time.Second
	maxAnswer     = 64 << 20
)

// call makes a request and returns the answer if it is a success.
func (p *pushClient) call(ctx context.Context, method, path string, header http.Header, body []byte) (http.Header, []byte, error) {
	server, err := parseServer(p.server)
	if err != nil {
		return nil, nil, err
	}
	request, err := http.NewRequestWithContext(ctx, method, strings.TrimRight(p.server, "/")+path, bytes.NewReader(body))
	if err != nil {
		return nil, nil, fmt.Errorf("call %s: %w", p.server, err)
	}
	for name, values := range header {
		request.Header[name] = values
	}
	if p.key != "" {
		request.Header.Set("Authorization", "Bearer "+p.key)
	}
	if p.transport == nil {
		encryption, err := p.encryption()
		if err != nil {
			return nil, nil, err
		}
		p.transport = &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: encryption}
	}
	client := http.Client{Timeout: clientTimeout, Transport: p.transport}
	response, err := client.Do(request)
	if err != nil {
		return nil, nil, fmt.Errorf("%w\n%s", err, callAdvice(err))
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err != nil {
		return nil, nil, fmt.Errorf("read the answer of %s: %w", p.server, err)
	}
	if len(answer) > maxAnswer {
		return nil, nil, fmt.Errorf("the answer of %s is longer than %d MiB: ask for less with --limit", p.server, maxAnswer>>20)
	}
	if response.StatusCode >= http.StatusBadRequest {
		return nil, nil, aboutThePath(server, response.StatusCode, answerError(response.StatusCode, answer))
	}
	return response.Header, answer, nil
}

// close ends the connection, if there is one.
func (p *pushClient) close() {
	if p.transport != nil {
		p.transport.CloseIdleConnections()
	}
}

// encryption is what HTTPS needs.
func (p *pushClient) encryption() (*tls.Config, error) {
	encryption, err := p.tls.Client(slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, fmt.Errorf("--ca, --client-cert or --client-key (PUSHQ_CA, PUSHQ_CLIENT_CERT, PUSHQ_CLIENT_KEY): %w", err)
	}
	return encryption, nil
}

func parseServer(server string) (*url.URL, error) {
	address, err := url.Parse(server)
	switch {
	case err != nil || address.Host == "" || address.Scheme != "http" && address.Scheme != "https":
		return nil, fmt.Errorf("--server or PUSHQ_SERVER %q: write an address such as %s", server, defaultServer)
	case address.RawQuery != "" || address.ForceQuery || address.Fragment != "" || address.User != nil:
		return nil, fmt.Errorf("--server or PUSHQ_SERVER: write an address such as %s, without a user and without what begins with ? or #", defaultServer)
	}
	return address, nil
}

// aboutThePath adds to an answer that there is no such address that the server was named
// with a path: only behind a proxy that takes it away is that right.
func aboutThePath(server *url.URL, status int, err error) error {
	path := strings.Trim(server.Path, "/")
	if path == "" || status != http.StatusNotFound && status != http.StatusMethodNotAllowed {
		return err
	}
	return fmt.Errorf("%w\n--server or PUSHQ_SERVER has the path /%s: leave it out, unless a proxy there hands on what is below it", err, path)
}

// callAdvice says what to do about a call that got no answer.
func callAdvice(err error) string {
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "Name a file with the authority that has signed the server's certificate with --ca or PUSHQ_CA"
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return "Name the server with --server or PUSHQ_SERVER as its certificate does"
	}
	if _, ok := errors.AsType[x509.CertificateInvalidError](err); ok {
		return "The server's certificate is not valid, or this host's clock is wrong"
	}
	switch text := err.Error(); {
	case strings.Contains(text, "tls: certificate required"):
		return "The server asks for a certificate: name its file and that of its key with --client-cert and --client-key"
	case strings.Contains(text, "remote error: tls:"):
		return "The server does not accept the certificate of --client-cert"
	case strings.Contains(text, "server gave HTTP response to HTTPS client"):
		return "The server speaks plain HTTP: write http:// in --server or PUSHQ_SERVER"
	default:
		return "Is pushq running there? Name another address with --server or PUSHQ_SERVER"
	}
}

// An answeredError is what a problem document says.
type answeredError struct {
	text   string
	fields []string // that it is about
}

func (e *answeredError) Error() string { return e.text }

// isAbout reports whether the server has found fault with a field.
func isAbout(err error, field string) bool {
	answered, ok := errors.AsType[*answeredError](err)
	return ok && slices.Contains(answered.fields, field)
}

// answerError says what a problem document says.
func answerError(status int, answer []byte) error {
	var problem struct {
		Title  string `json:"title"`
		Detail string `json:"detail"`
		Errors []struct {
			Field  string `json:"field"`
			Reason string `json:"reason"`
		} `json:"errors"`
	}
	if err := json.Unmarshal(answer, &problem); err != nil || problem.Title == "" {
		return fmt.Errorf("the server answered %d %s", status, http.StatusText(status))
	}
	text := fmt.Sprintf("%s (%d)", problem.Title, status)
	if problem.Detail != "" {
		text += ": " + problem.Detail
	}
	var fields []string
	for _, field := range problem.Errors {
		fields = append(fields, field.Field)
		text += fmt.Sprintf("\n  %s %s", field.Field, field.Reason)
	}
	if status == http.StatusUnauthorized {
		text += "\nName a key with --key or PUSHQ_KEY"
	}
	return &answeredError{text, fields}
}
