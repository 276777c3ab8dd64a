package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// pushClient calls the HTTP API.
type pushClient struct {
	server string
	key    string
}

const (
	clientTimeout = 30 * time.Second
	maxAnswer     = 64 << 20
)

// call makes a request and returns the answer if it is a success.
func (p *pushClient) call(ctx context.Context, method, path string, header http.Header, body []byte) (http.Header, []byte, error) {
	if _, err := parseServer(p.server); err != nil {
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
	client := http.Client{Timeout: clientTimeout}
	response, err := client.Do(request)
	if err != nil {
		return nil, nil, fmt.Errorf("%w\nIs pushq running there? Name another address with --server or PUSHQ_SERVER", err)
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
		return nil, nil, answerError(response.StatusCode, answer)
	}
	return response.Header, answer, nil
}

func parseServer(server string) (*url.URL, error) {
	address, err := url.Parse(server)
	if err != nil || address.Host == "" || address.Scheme != "http" && address.Scheme != "https" {
		return nil, fmt.Errorf("--server %q: write an address such as %s", server, defaultServer)
	}
	return address, nil
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
	for _, field := range problem.Errors {
		text += fmt.Sprintf("\n  %s %s", field.Field, field.Reason)
	}
	if status == http.StatusUnauthorized {
		text += "\nName a key with --key or PUSHQ_KEY"
	}
	return errors.New(text)
}
