package api

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"

	"pushq/tasks"
)

// The media types that the callers of the service send.
var pushMediaTypes = []string{"application/json", "application/vnd.fourfinanceit.v1+json"}

// requireMediaType refuses every type that is not allowed, and any encoding.
// The only parameter that may come with it is charset=utf-8.
func requireMediaType(header http.Header, allowed ...string) (string, error) {
	sent := header.Get(echo.HeaderContentType)
	once := len(header.Values(echo.HeaderContentType)) == 1 && len(header.Values(echo.HeaderContentEncoding)) == 0
	if once && slices.Contains(allowed, sent) {
		return sent, nil
	}
	mediaType, parameters, err := mime.ParseMediaType(sent)
	charset, hasCharset := parameters["charset"]
	delete(parameters, "charset")
	if err == nil && once && len(parameters) == 0 && (!hasCharset || strings.EqualFold(charset, "utf-8")) &&
		slices.Contains(allowed, mediaType) {
		return mediaType, nil
	}
	wrong := ""
	switch encoding := header.Values(echo.HeaderContentEncoding); {
	case len(encoding) > 0:
		wrong = fmt.Sprintf("The body has the Content-Encoding %.40q, which is not read: send it as it is. ", encoding[0])
	case err == nil && hasCharset && !strings.EqualFold(charset, "utf-8"):
		wrong = fmt.Sprintf("The body has the charset %.40q: send it in UTF-8. ", charset)
	case err == nil && len(parameters) > 0:
		wrong = fmt.Sprintf("The media type has the parameter %.40q, which is not known. ", slices.Sorted(maps.Keys(parameters))[0])
	}
	return "", newProblem(http.StatusUnsupportedMediaType, "unsupported-media-type", "Unsupported media type",
		wrong+fmt.Sprintf("Send it as one of these, with or without charset=utf-8: %s.", strings.Join(allowed, ", ")))
}

// withoutMark is a body without the byte order mark that some programs write before UTF-8.
func withoutMark(body []byte) []byte { return bytes.TrimPrefix(body, []byte("\uFEFF")) }

// readBody reads a request's body up to the limit.
func readBody(c echo.Context, limit int64) ([]byte, error) {
	if err := refuseLongBody(c, limit); err != nil {
		return nil, err
	}
	request := c.Request()
	var body bytes.Buffer
	body.Grow(int(max(request.ContentLength, 0)) + bytes.MinRead)
	if _, err := body.ReadFrom(http.MaxBytesReader(c.Response(), request.Body, limit)); err != nil {
		return nil, bodyProblem(c, err)
	}
	return withoutMark(body.Bytes()), nil
}

// refuseLongBody does so before anything of it has come, if its length is known.
func refuseLongBody(c echo.Context, limit int64) error {
	if c.Request().ContentLength > limit {
		return bodyProblem(c, &http.MaxBytesError{Limit: limit})
	}
	return nil
}

// bodyProblem is the answer to a body that could not be read.
func bodyProblem(c echo.Context, err error) error {
	var exceeded *http.MaxBytesError
	switch {
	case errors.As(err, &exceeded):
		answerAtOnce(c)
		return newProblem(http.StatusRequestEntityTooLarge, "too-large", "Too large",
			fmt.Sprintf("The body is longer than %d bytes.", exceeded.Limit))
	case errors.Is(err, os.ErrDeadlineExceeded):
		return newProblem(http.StatusRequestTimeout, "timeout", "Timeout", "The body did not arrive in time.")
	default:
		return invalid("The body could not be read to its end.")
	}
}

// answerAtOnce is for answers to a body that has not been read: net/http waits for the
// rest of it otherwise.
func answerAtOnce(c echo.Context) { c.Response().Header().Set(echo.HeaderConnection, "close") }

// pushFields are the fields of a push, as their names are written in JSON.
func pushFields(push *tasks.Push) []pushField {
	return []pushField{
		{"platform", &push.Platform, true},
		{"messagePrototypeKey", &push.MessagePrototypeKey, true},
		{"pushKey", &push.PushKey, true},
		{"message", &push.Message, true},
		{"cronExpression", &push.CronExpression, false},
		{"timeZone", &push.TimeZone, false},
	}
}

type pushField struct {
	name     string
	value    *string
	required bool
}

// decodePush reads one push and names everything that is wrong with it. It is
// strict, because a mistyped cronExpression that is ignored sends a push at
// once: names are exact, unknown and repeated names are errors, and so is
// anything that is not valid JSON in UTF-8 (RFC 8259). There may be more fields
// than those of a push.
func decodePush(body []byte, more ...pushField) (tasks.Push, error) {
	push := tasks.Push{}
	values, problems, err := readObject(body)
	if err != nil {
		return push, err
	}
	for _, field := range append(pushFields(&push), more...) {
		value, given := values[field.name]
		delete(values, field.name)
		switch {
		case given && value.Kind() == 'n' && !field.required:
		case !given && !field.required:
		case !given:
			problems = append(problems, fieldError{field.name, "is missing"})
		case value.Kind() != '"':
			problems = append(problems, fieldError{field.name, "must be a text"})
		default:
			text, reason := readText(value)
			if reason != "" {
				problems = append(problems, fieldError{field.name, reason})
			}
			*field.value = text
		}
	}
	for name := range values {
		problems = append(problems, fieldError{name, "is not a field of a push"})
	}
	if push.Platform != "" && push.Platform != tasks.IOS && push.Platform != tasks.Android {
		problems = append(problems, fieldError{"platform", "must be IOS or ANDROID"})
	}
	if len(problems) > 0 {
		sortByField(problems)
		return push, invalid("", problems...)
	}
	return push, nil
}

// decoders are kept for the next body.
var decoders = sync.Pool{New: func() any { return new(jsontext.Decoder) }}

// readObject splits an object into its members, which are parts of the body.
func readObject(body []byte) (map[string]jsontext.Value, []fieldError, error) {
	decoder := decoders.Get().(*jsontext.Decoder)
	defer func() {
		decoder.Reset(new(bytes.Buffer)) // it would keep the body
		decoders.Put(decoder)
	}()
	decoder.Reset(bytes.NewBuffer(body), jsontext.AllowDuplicateNames(true))
	const usual = 8 // members, which fit into the smallest map
	values := make(map[string]jsontext.Value, usual)
	var repeated map[string]bool
	var problems []fieldError
	start, err := decoder.ReadToken()
	if err != nil {
		return nil, nil, syntaxProblem(err)
	}
	if start.Kind() != '{' {
		return nil, nil, invalid("There must be one JSON object.")
	}
	for decoder.PeekKind() != '}' {
		token, err := decoder.ReadToken()
		if err != nil {
			return nil, nil, syntaxProblem(err)
		}
		name := token.String()
		value, err := decoder.ReadValue()
		if err != nil {
			return nil, nil, syntaxProblem(err)
		}
		if _, given := values[name]; given && !repeated[name] {
			if repeated == nil {
				repeated = make(map[string]bool)
			}
			repeated[name] = true
			problems = append(problems, fieldError{name, "is there twice"})
		}
		end := decoder.InputOffset()
		values[name] = body[end-int64(len(value)) : end]
	}
	if _, err := decoder.ReadToken(); err != nil {
		return nil, nil, syntaxProblem(err)
	}
	if _, err := decoder.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, nil, invalid("There is something after the JSON object.")
	}
	return values, problems, nil
}

func syntaxProblem(err error) *problem {
	var syntactic *jsontext.SyntacticError
	if errors.As(err, &syntactic) {
		return invalid(fmt.Sprintf("This is not valid JSON in UTF-8: %v at byte %d.", syntactic.Err, syntactic.ByteOffset))
	}
	return invalid("This is not valid JSON in UTF-8: it ends too early.")
}

func readText(value jsontext.Value) (text, reason string) {
	unquoted, err := value[1:len(value)-1], error(nil)
	if bytes.ContainsRune(value, '\\') {
		unquoted, err = jsontext.AppendUnquote(nil, value)
	}
	switch {
	case err != nil:
		return "", "is not valid text"
	case len(unquoted) == 0:
		return "", "must not be empty"
	case bytes.ContainsRune(unquoted, 0):
		return "", "must not contain U+0000, which no device shows and some stores refuse"
	default:
		return string(unquoted), ""
	}
}
