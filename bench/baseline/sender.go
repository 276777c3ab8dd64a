package baseline

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// A Sender makes the same request to Swrve as pushq does, over as many kept
// connections. It is safe for concurrent use.
type Sender struct {
	url    string
	client *http.Client
}

// NewSender returns a sender for so many requests at a time.
func NewSender(url string, connections int) *Sender {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConns = connections
	transport.MaxIdleConnsPerHost = connections
	transport.DisableCompression = true
	return &Sender{url, &http.Client{Transport: transport, Timeout: 15 * time.Second}}
}

// Send returns nil if the provider answered 2xx.
func (s *Sender) Send(ctx context.Context, push Push) error {
	form := url.Values{"push_key": {"ios-key"}, "user": {push.PushKey}, "message": {push.Message}}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, strings.NewReader(form.Encode()))
	if err != nil {
		return fmt.Errorf("send a push: %w", err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
	response, err := s.client.Do(request)
	if err != nil {
		return fmt.Errorf("send a push: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return fmt.Errorf("send a push: %w", err)
	}
	if response.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("the provider answered %d", response.StatusCode)
	}
	return nil
}
