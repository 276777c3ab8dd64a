package openapitest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// Transport checks every exchange that goes through base. One that departs from
// the description fails as if the server could not be reached.
func (d *Description) Transport(base http.RoundTripper) http.RoundTripper {
	return &transport{d, base}
}

type transport struct {
	description *Description
	base        http.RoundTripper
}

func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	observed, sent := request, []byte(nil)
	if request.Body != nil && request.Body != http.NoBody {
		var err error
		if sent, err = readAndClose(request.Body); err != nil {
			return nil, fmt.Errorf("read the request: %w", err)
		}
		// The length, which may be unknown, stays as it is.
		observed = request.Clone(request.Context())
		observed.Body = io.NopCloser(bytes.NewReader(sent))
	}
	response, err := t.base.RoundTrip(observed)
	if err != nil {
		return nil, err
	}
	body, err := readAndClose(response.Body)
	if err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	response.Body, response.Request = io.NopCloser(bytes.NewReader(body)), request
	if err := t.description.Check(request, sent, response, body); err != nil {
		return nil, err
	}
	return response, nil
}

func readAndClose(body io.ReadCloser) ([]byte, error) {
	text, err := io.ReadAll(body)
	return text, errors.Join(err, body.Close())
}

// CloseIdleConnections closes those of base.
func (t *transport) CloseIdleConnections() {
	if base, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}
