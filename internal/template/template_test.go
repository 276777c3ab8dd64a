package template

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDecode(t *testing.T) {
	t.Parallel()
	const good = `{"id":"1","code":"welcome","type":"push","language":"en","version":2,"content":{"title":"Hi","body":"{{name}}"},"variables":["name"]}`
	want := Template{Code: "welcome", Content: Content{Title: "Hi", Body: "{{name}}"}}
	for _, body := range []string{
		good,
		strings.Replace(good, `"en"`, `"de"`, 1),
		strings.Replace(good, `"1"`, `17`, 1),
		strings.Replace(good, `["name"]`, `[{"name":"name","required":true}]`, 1),
		`{"code":"welcome","type":"push","content":{"title":"Hi","body":"{{name}}","image":null},"more":{}}`,
	} {
		template, err := decode("welcome", []byte(body))
		require.NoError(t, err, body)
		require.Equal(t, want, template, body)
	}
	for body, problem := range map[string]string{
		"":                 "EOF",
		"null":             `its code is ""`,
		"[]":               "unmarshal",
		"<!DOCTYPE html>":  "invalid character '<'",
		good + "x":         "invalid character 'x'",
		good[:len(good)-5]: "EOF",
		strings.Replace(good, `"code":"welcome"`, `"code":"Welcome"`, 1):                                         `its code is "Welcome", not "welcome"`,
		strings.Replace(good, `"code"`, `"CODE"`, 1):                                                             `its code is "", not "welcome"`,
		strings.Replace(good, `"push"`, `"email"`, 1):                                                            `its type is "email", not push`,
		strings.Replace(good, `"Hi"`, `["Hi"]`, 1):                                                               "unmarshal",
		strings.Replace(good, `"Hi"`, "\"\xff\"", 1):                                                             "invalid UTF-8",
		strings.Replace(good, `"Hi"`, `"\ud800"`, 1):                                                             "surrogate",
		strings.Replace(good, `"title"`, `"body"`, 1):                                                            "duplicate",
		`{"code":"welcome","type":"push","content":{"title":"","body":""}}`:                                      "neither title nor body",
		`{"code":"welcome","type":"push","content":null}`:                                                        "neither title nor body",
		`{"code":"welcome","type":"push","title":"Hi"}`:                                                          "neither title nor body",
		`{"code":"welcome","type":"push","content":{"title":"x","body":"` + strings.Repeat("x", maxText) + `"}}`: "more than 16384 bytes",
		`{"code":"` + strings.Repeat("y", 200) + `"}`:                                                            `its code is "` + strings.Repeat("y", 80) + `", not`,
	} {
		_, err := decode("welcome", []byte(body))
		require.ErrorContains(t, err, problem, body)
	}
}
