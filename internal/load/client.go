package load

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

const maxAnswer = 1 << 20

// refusedError is an answer that accepts no push.
type refusedError struct {
	status int
	answer string
}

func (e *refusedError) Error() string {
	return fmt.Sprintf("the server answered %d %s: %s", e.status, http.StatusText(e.status), e.answer)
}

// hopeless tells a refusal that every push of the run would get.
func (e *refusedError) hopeless() bool {
	return e.status >= 400 && e.status < 500 && e.status != http.StatusTooManyRequests
}

// send posts a push and returns its id.
func (r *run) send(ctx context.Context, body []byte) (id string, err error) {
	status, header, answer, err := r.call(ctx, http.MethodPost, "/push", body)
	if err != nil {
		return "", err
	}
	if status != http.StatusAccepted {
		return "", &refusedError{status, strings.TrimSpace(string(answer))}
	}
	return strings.TrimPrefix(header.Get("Location"), "/push/"), nil
}

func (r *run) lookUp(ctx context.Context, id string) (push, error) {
	status, _, answer, err := r.call(ctx, http.MethodGet, "/push/"+id, nil)
	if err != nil {
		return push{}, err
	}
	if status != http.StatusOK {
		return push{}, &refusedError{status, strings.TrimSpace(string(answer))}
	}
	var found push
	if err := json.Unmarshal(answer, &found); err != nil {
		return push{}, fmt.Errorf("read push %s: %w", id, err)
	}
	return found, nil
}

// call reads the whole answer, so that the connection is used again.
func (r *run) call(ctx context.Context, method, path string, body []byte) (int, http.Header, []byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, strings.TrimRight(r.Server, "/")+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, nil, fmt.Errorf("call %s: %w", r.Server, err)
	}
	request.Header.Set("Content-Type", "application/json")
	if r.Key != "" {
		request.Header.Set("Authorization", "Bearer "+r.Key)
	}
	response, err := r.Client.Do(request)
	if err != nil {
		return 0, nil, nil, err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return 0, nil, nil, fmt.Errorf("read the answer of %s: %w", r.Server, err)
	}
	return response.StatusCode, response.Header, answer, nil
}
