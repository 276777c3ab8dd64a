package api

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"pushq/tasks"
)

func TestBodiesThatAreNoObject(t *testing.T) {
	t.Parallel()
	s := startService(t)
	for _, test := range []struct{ name, body, detail string }{
		{"empty", "", "ends too early"},
		{"blank", " \n", "ends too early"},
		{"no JSON", "platform=IOS", "not valid JSON"},
		{"XML", "<push/>", "not valid JSON"},
		{"cut", push()[:len(push())-1], "not valid JSON"},
		{"array", "[" + push() + "]", "must be one JSON object"},
		{"text", `"push"`, "must be one JSON object"},
		{"number", "1", "must be one JSON object"},
		{"null", "null", "must be one JSON object"},
		{"second object", push() + push(), "something after"},
		{"garbage after it", push() + "x", "something after"},
		{"closing brace after it", push() + "}", "something after"},
		{"NUL after it", push() + "\x00", "something after"},
		{"comma at the end", strings.TrimSuffix(push(), "}") + ",}", "not valid JSON"},
		{"comma at the beginning", strings.Replace(push(), "{", "{,", 1), "not valid JSON"},
		{"comment", "/* */" + push(), "not valid JSON"},
		{"single quotes", strings.ReplaceAll(push(), `"`, `'`), "not valid JSON"},
		{"name without quotes", strings.Replace(push(), `"platform"`, `platform`, 1), "not valid JSON"},
		{"two byte order marks", "\ufeff\ufeff" + push(), "not valid JSON"},
		{"UTF-16", "\xff\xfe{\x00}\x00", "not valid JSON"},
		{"NaN", push("message", "NaN"), "not valid JSON"},
		{"line break in a text", push("message", "\"a\nb\""), "not valid JSON"},
		{"raw NUL in a text", push("message", "\"a\x00b\""), "not valid JSON"},
		{"unknown escape", push("message", `"\x41"`), "not valid JSON"},
		{"invalid UTF-8", push("message", "\"a\xffb\""), "not valid JSON"},
		{"cut UTF-8", push("message", "\"\xf0\x9f\x98\""), "not valid JSON"},
		{"surrogate in UTF-8", push("message", "\"\xed\xa0\x80\""), "not valid JSON"},
		{"overlong UTF-8", push("message", "\"\xc0\xaf\""), "not valid JSON"},
		{"invalid UTF-8 in a name", push("\xff", `"x"`), "not valid JSON"},
		{"lone high surrogate", push("message", `"\ud83d"`), "not valid JSON"},
		{"lone low surrogate", push("message", `"\ude00 x"`), "not valid JSON"},
		{"surrogates swapped", push("message", `"\ude00\ud83d"`), "not valid JSON"},
		{"lone surrogate in a name", push(`\ud83d`, `"x"`), "not valid JSON"},
		{"deep nesting", strings.Repeat("[", 16000), "must be one JSON object"},
		{"deep nesting inside", `{"message":` + strings.Repeat("[", 16000), "not valid JSON"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := s.post(test.body)
			require.Equal(t, http.StatusBadRequest, got.status, got.body)
			require.Equal(t, "invalid-request", got.kind())
			require.Contains(t, got.problem.Detail, test.detail)
		})
	}
	require.Zero(t, s.queued(), "a refused push was queued")
}

func TestMistakesInFields(t *testing.T) {
	t.Parallel()
	s := startService(t)
	for _, test := range []struct {
		name, body string
		mistakes   []string
	}{
		{"unknown field", push("badge", "1"), []string{"badge is not a field of a push"}},
		{"field with an empty name", push("", "1"), []string{" is not a field of a push"}},
		{"mistyped cronExpression", push("cronExpresion", `"0 0 9 * * ?"`), []string{"cronExpresion is not a field"}},
		{"other case", push("PUSHKEY", `"x"`), []string{"PUSHKEY is not a field"}},
		{"other case only", push("pushKey", "", "PUSHKEY", `"x"`), []string{"PUSHKEY is not a field", "pushKey is missing"}},
		{"no pushKey", push("pushKey", ""), []string{"pushKey is missing"}},
		{"no message", push("message", ""), []string{"message is missing"}},
		{"no messagePrototypeKey", push("messagePrototypeKey", ""), []string{"messagePrototypeKey is missing"}},
		{"no platform", push("platform", ""), []string{"platform is missing"}},
		{"empty pushKey", push("pushKey", `""`), []string{"pushKey must not be empty"}},
		{"empty message", push("message", `""`), []string{"message must not be empty"}},
		{"empty messagePrototypeKey", push("messagePrototypeKey", `""`), []string{"messagePrototypeKey must not be empty"}},
		{"empty platform", push("platform", `""`), []string{"platform must not be empty"}},
		{"empty object", "{}", []string{"message is missing", "messagePrototypeKey is missing", "platform is missing", "pushKey is missing"}},
		{
			"several mistakes", push("platform", `"WEB"`, "message", "7", "pushKey", "", "sound", `"ding"`),
			[]string{"message must be a text", "platform must be IOS or ANDROID", "pushKey is missing", "sound is not a field"},
		},
		{"platform in lower case", push("platform", `"ios"`), []string{"platform must be IOS or ANDROID"}},
		{"platform in mixed case", push("platform", `"Android"`), []string{"platform must be IOS or ANDROID"}},
		{"platform with a blank", push("platform", `"IOS "`), []string{"platform must be IOS or ANDROID"}},
		{"message null", push("message", "null"), []string{"message must be a text"}},
		{"message a number", push("message", "1"), []string{"message must be a text"}},
		{"message true", push("message", "true"), []string{"message must be a text"}},
		{"message an object", push("message", `{"message":"x"}`), []string{"message must be a text"}},
		{"message an array", push("message", `["x"]`), []string{"message must be a text"}},
		{"platform a number", push("platform", "1"), []string{"platform must be a text"}},
		{"pushKey false", push("pushKey", "false"), []string{"pushKey must be a text"}},
		{"cronExpression a number", push("cronExpression", "5"), []string{"cronExpression must be a text"}},
		{"cronExpression false", push("cronExpression", "false"), []string{"cronExpression must be a text"}},
		{"timeZone an object", push("timeZone", "{}"), []string{"timeZone must be a text"}},
		{"name twice", strings.Replace(push(), "{", `{"message":"first",`, 1), []string{"message is there twice"}},
		{"name twice, escaped", strings.Replace(push(), "{", `{"messag\u0065":"first",`, 1), []string{"message is there twice"}},
		{"name three times", strings.Replace(push(), "{", `{"message":"a","message":"b",`, 1), []string{"message is there twice"}},
		{"cronExpression twice", push("timeZone", "null", "cronExpression", `"0 0 9 * * ?","cronExpression":null`), []string{"cronExpression is there twice"}},
		{"escaped NUL", push("message", `"a\u0000b"`), []string{"message must not contain U+0000"}},
		{"escaped NUL in the push key", push("pushKey", `"\u0000"`), []string{"pushKey must not contain U+0000"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s.post(test.body).requireMistakes(t, test.mistakes...)
		})
	}
	require.Zero(t, s.queued(), "a refused push was queued")
}

func TestOfManyMistakesSomeAreNamed(t *testing.T) {
	t.Parallel()
	s := startService(t)
	var members []string
	for number := range 1000 {
		members = append(members, fmt.Sprintf(`"%d":0`, number))
	}
	got := s.post("{" + strings.Join(members, ",") + "}")
	require.Equal(t, http.StatusBadRequest, got.status)
	require.Len(t, got.problem.Errors, 20)
	require.Contains(t, got.problem.Detail, "1004 mistakes")
}

// padded is a push of exactly the given number of bytes.
func padded(length int) string {
	body := push()
	return push("message", `"`+canaryMessage+strings.Repeat("x", length-len(body))+`"`)
}

// unknownLength hides the length of a body from the HTTP client, which then
// sends it in chunks.
type unknownLength struct{ io.Reader }

func TestSizeOfTheBody(t *testing.T) {
	t.Parallel()
	s := startService(t)
	for _, test := range []struct {
		length, status int
	}{
		{16384, http.StatusAccepted},
		{16385, http.StatusRequestEntityTooLarge},
		{1 << 20, http.StatusRequestEntityTooLarge},
	} {
		for name, body := range map[string]io.Reader{
			"with a length": strings.NewReader(padded(test.length)),
			"in chunks":     unknownLength{strings.NewReader(padded(test.length))},
		} {
			got := s.send(http.MethodPost, "/push", body, "Content-Type", "application/json")
			require.Equal(t, test.status, got.status, "%d bytes %s", test.length, name)
			if test.status != http.StatusAccepted {
				require.Equal(t, "too-large", got.kind())
				require.Contains(t, got.problem.Detail, "16384 bytes")
			}
		}
	}
	require.Equal(t, 2, s.queued())
}

func TestMediaTypes(t *testing.T) {
	t.Parallel()
	s := startService(t)
	for contentType, accepted := range map[string]bool{
		"application/json":                                     true,
		"application/json; charset=utf-8":                      true,
		"application/json;charset=UTF-8":                       true,
		`application/json; charset="UTF-8"`:                    true,
		"Application/JSON":                                     true,
		"application/vnd.fourfinanceit.v1+json":                true,
		"application/vnd.fourfinanceit.v1+json; charset=utf-8": true,
		"application/vnd.fourfinanceit.v1+json;charset=UTF-8":  true,
		"":                                         false,
		"text/plain":                               false,
		"text/json":                                false,
		"application/x-www-form-urlencoded":        false,
		"application/json; charset=latin1":         false,
		"application/json; charset=":               false,
		"application/json; charset=utf-16":         false,
		"application/json; foo=bar":                false,
		"application/json; charset=utf-8; foo=bar": false,
		"application/json; charset=utf-8; charset=latin1":         false,
		"application/json, text/plain":                            false,
		"application/vnd.fourfinanceit.v2+json":                   false,
		"application/vnd.fourfinanceit.v1+json; charset=us-ascii": false,
		"application/problem+json":                                false,
		"*/*":                                                     false,
		"json":                                                    false,
	} {
		t.Run(contentType, func(t *testing.T) {
			var header []string
			if contentType != "" {
				header = []string{"Content-Type", contentType}
			}
			got := s.send(http.MethodPost, "/push", strings.NewReader(push()), header...)
			if accepted {
				require.Equal(t, http.StatusAccepted, got.status, got.body)
				return
			}
			require.Equal(t, http.StatusUnsupportedMediaType, got.status)
			require.Equal(t, "unsupported-media-type", got.kind())
			require.Contains(t, got.problem.Detail, "application/json")
		})
	}
	for _, header := range [][]string{
		{"Content-Type", "application/json", "Content-Type", "text/plain"},
		{"Content-Type", "application/json", "Content-Encoding", "gzip"},
	} {
		got := s.send(http.MethodPost, "/push", strings.NewReader(push()), header...)
		require.Equal(t, http.StatusUnsupportedMediaType, got.status, header)
	}
	require.Equal(t, 8, s.queued())
}

func TestWhatIsNotReadIsNamed(t *testing.T) {
	t.Parallel()
	s := startService(t)
	for _, path := range []string{"/push", "/push/batch", "/push/retry"} {
		for says, header := range map[string][]string{
			`the Content-Encoding "gzip", which is not read`: {"Content-Type", "application/json", "Content-Encoding", "gzip"},
			`the charset "latin1": send it in UTF-8`:         {"Content-Type", "application/json; charset=latin1"},
			`the parameter "version", which is not known`:    {"Content-Type", "application/json; version=2"},
		} {
			got := s.send(http.MethodPost, path, strings.NewReader(push()), header...)
			require.Equal(t, http.StatusUnsupportedMediaType, got.status, header)
			require.Contains(t, got.problem.Detail, says)
			require.Contains(t, got.problem.Detail, "Send it as one of these")
		}
	}
}

// Some programs write one before the first character of a file.
func TestAByteOrderMarkIsNoPartOfABody(t *testing.T) {
	t.Parallel()
	s := startService(t)
	s.http = &http.Client{} // the description knows no such bodies
	require.Equal(t, http.StatusAccepted, s.post("\uFEFF"+push()).status)
	for mediaType, body := range map[string]string{"application/x-ndjson": push() + "\n" + push(), "application/json": "[" + push() + "]"} {
		got := s.send(http.MethodPost, "/push/batch", strings.NewReader("\uFEFF"+body), "Content-Type", mediaType)
		require.Equal(t, http.StatusOK, got.status, got.body)
		require.NotContains(t, got.body, "error")
	}
	require.Equal(t, http.StatusBadRequest, s.post("\uFEFF\uFEFF"+push()).status)
	require.Equal(t, 4, s.queued())
}

// What is accepted reads the same with another parser; all else is a 400.
func FuzzDecodePush(f *testing.F) {
	for _, body := range []string{
		push(), push("timeZone", `"UTC"`, "cronExpression", `"0 0 9 * * ?"`), push("message", `"\ud83d\ude00 \u0000"`),
		push("message", `"\ud83d"`), push("pushKey", `""`), push("x", "[{}]"), "[]", "", push("message", "\"\xff\""),
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := decodePush(body)
		if err != nil {
			require.Equal(t, http.StatusBadRequest, problemFor(err).Status)
			return
		}
		require.True(t, utf8.Valid(body))
		members := make(map[string]*string)
		require.NoError(t, json.Unmarshal(body, &members))
		for _, field := range pushFields(&got) {
			require.False(t, field.required && *field.value == "", field.name)
			require.NotContains(t, *field.value, "\x00")
			if text := members[field.name]; text != nil {
				require.Equal(t, *text, *field.value, field.name)
			} else {
				require.Empty(t, *field.value, field.name)
			}
			delete(members, field.name)
		}
		require.Empty(t, members, "unknown fields were accepted")
		require.Contains(t, []string{tasks.IOS, tasks.Android}, got.Platform)
	})
}

// What is kept for the next body holds nothing of the last one: it has push keys.
func TestNoBodyIsKept(t *testing.T) {
	for range 20 { // a pool forgets now and then
		_, _, err := readObject([]byte(`"no object" and a secret`))
		require.Error(t, err)
		decoder := decoders.Get().(*jsontext.Decoder)
		require.Empty(t, decoder.UnreadBuffer())
	}
}
