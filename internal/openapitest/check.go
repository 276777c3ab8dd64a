package openapitest

import (
	"bytes"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// transportHeaders belong to HTTP, or are instructions for caches and browsers
// that every answer has, not to what is described.
var transportHeaders = []string{"Cache-Control", "Connection", "Content-Length", "Content-Type", "Date", "Vary", "X-Content-Type-Options"}

// Check says where an exchange departs from the description. The answer must be
// as described; the request only if the answer is a success, because a server
// may take less than its description allows, but never more.
func (d *Description) Check(request *http.Request, requestBody []byte, answer *http.Response, answerBody []byte) error {
	operation, err := d.checkExchange(request, requestBody, answer, answerBody)
	if err != nil {
		return fmt.Errorf("%s %s, answered %d, departs from the description: %w", request.Method, request.URL.Path, answer.StatusCode, err)
	}
	// Without its body an answer is seen only in part.
	if operation != nil && request.Method != http.MethodHead {
		d.remember(operation, answer.StatusCode)
	}
	return nil
}

func (d *Description) checkExchange(request *http.Request, requestBody []byte, answer *http.Response, answerBody []byte) (*operation, error) {
	operation, values, pathKnown := d.find(request)
	want, described := d.undescribed(pathKnown, answer.StatusCode)
	if operation != nil {
		want, described = operation.responses[answer.StatusCode]
	}
	if !described {
		return operation, errors.New("the status is not described")
	}
	if operation != nil && answer.StatusCode < 300 {
		if err := operation.checkRequest(request, requestBody, values); err != nil {
			return operation, fmt.Errorf("the request was accepted: %w", err)
		}
	}
	if err := want.checkHeaders(answer.Header); err != nil {
		return operation, err
	}
	if request.Method == http.MethodHead {
		if len(answerBody) > 0 {
			return operation, errors.New("HEAD was answered with a body")
		}
		return operation, nil
	}
	if err := checkBody(want.content, answer.Header, answerBody); err != nil {
		return operation, fmt.Errorf("the answer: %w", err)
	}
	return operation, nil
}

// undescribed is the answer to what the description does not name.
func (d *Description) undescribed(pathKnown bool, status int) (response, bool) {
	switch {
	case status == http.StatusUnauthorized:
		return d.unauthorized, true
	case status == http.StatusForbidden:
		return d.forbidden, true
	case status == http.StatusNotFound && !pathKnown:
		return d.notFound, true
	case status == http.StatusMethodNotAllowed && pathKnown:
		return d.methodNotAllowed, true
	}
	return response{}, false
}

// find looks for the operation of a request, and the values in its path. A path
// without variables goes before one that has some.
func (d *Description) find(request *http.Request) (found *operation, values map[string]string, pathKnown bool) {
	method := request.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	for _, operation := range d.operations {
		matched, ok := match(operation.path, request.URL.EscapedPath())
		pathKnown = pathKnown || ok
		if ok && operation.method == method && (found == nil || len(matched) < len(values)) {
			found, values = operation, matched
		}
	}
	return found, values, pathKnown
}

func match(template, path string) (map[string]string, bool) {
	want, got := strings.Split(template, "/"), strings.Split(path, "/")
	if len(want) != len(got) {
		return nil, false
	}
	values := make(map[string]string)
	for place, segment := range want {
		name, variable := strings.CutPrefix(segment, "{")
		if !variable && segment != got[place] || variable && got[place] == "" {
			return nil, false
		}
		if variable {
			values[strings.TrimSuffix(name, "}")] = got[place]
		}
	}
	return values, true
}

func (o *operation) checkRequest(request *http.Request, body []byte, pathValues map[string]string) error {
	query, err := url.ParseQuery(request.URL.RawQuery)
	if err != nil {
		return fmt.Errorf("its query: %w", err)
	}
	for _, parameter := range o.parameters {
		var given []string
		switch parameter.in {
		case "path":
			given = []string{pathValues[parameter.name]}
		case "query":
			given = query[parameter.name]
			query.Del(parameter.name)
		case "header":
			given = request.Header.Values(parameter.name)
		default:
			return fmt.Errorf("parameters in %s are not checked", parameter.in)
		}
		if err := checkValue(given, parameter.required, parameter.schema); err != nil {
			return fmt.Errorf("its %s %s: %w", parameter.in, parameter.name, err)
		}
	}
	if len(query) > 0 {
		return fmt.Errorf("its query has parameters that are not described: %v", query)
	}
	if err := checkBody(o.body, request.Header, body); err != nil {
		return fmt.Errorf("its body: %w", err)
	}
	return nil
}

func (r response) checkHeaders(given http.Header) error {
	for name := range given {
		if _, described := r.headers[name]; !described && !slices.Contains(transportHeaders, name) {
			return fmt.Errorf("the header %s is not described", name)
		}
	}
	for name, header := range r.headers {
		if err := checkValue(given.Values(name), header.required, header.schema); err != nil {
			return fmt.Errorf("the header %s: %w", name, err)
		}
	}
	return nil
}

// checkValue is for what HTTP writes as text, numbers included.
func checkValue(given []string, required bool, schema *jsonschema.Schema) error {
	switch {
	case len(given) == 0 && required:
		return errors.New("is missing")
	case len(given) == 0:
		return nil
	case len(given) > 1:
		return fmt.Errorf("is there %d times", len(given))
	}
	err := schema.Validate(given[0])
	if number, notANumber := strconv.Atoi(given[0]); err != nil && notANumber == nil {
		return schema.Validate(number)
	}
	return err
}

// checkBody checks a body by the media types that are described: JSON as what
// it says, anything else as a text.
func checkBody(content map[string]*jsonschema.Schema, header http.Header, body []byte) error {
	if len(content) == 0 {
		if len(body) > 0 {
			return errors.New("a body is not described")
		}
		return nil
	}
	mediaType, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err != nil {
		return fmt.Errorf("the media type %q: %w", header.Get("Content-Type"), err)
	}
	schema, described := content[mediaType]
	if !described {
		return fmt.Errorf("the media type %s is not described", mediaType)
	}
	if mediaType != "application/json" && !strings.HasSuffix(mediaType, "+json") {
		return schema.Validate(string(body))
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("read JSON: %w", err)
	}
	return schema.Validate(value)
}
