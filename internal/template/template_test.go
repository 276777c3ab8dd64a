package template

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pushq/internal/exchange"
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
		"\ufeff \n" + good,
	} {
		template, err := decode("welcome", exchange.Answer{Status: 200, Body: []byte(body)})
		require.NoError(t, err, body)
		require.Equal(t, want, template, body)
	}
	// What is wrong with this template alone.
	for body, problem := range map[string]string{
		strings.Replace(good, `"code":"welcome"`, `"code":"Welcome"`, 1):                                         `its code is "Welcome", not "welcome"`,
		strings.Replace(good, `"code":"welcome"`, `"code":"`+strings.Repeat("y", 200)+`"`, 1):                    `its code is "` + strings.Repeat("y", 80) + `", not`,
		strings.Replace(good, `"push"`, `"email"`, 1):                                                            `its type is "email", not push`,
		`{"code":"welcome","type":"push","content":{"title":"","body":""}}`:                                      "neither title nor body",
		`{"code":"welcome","type":"push","content":{"title":"x","body":"` + strings.Repeat("x", maxText) + `"}}`: "more than 16384 bytes",
	} {
		_, err := decode("welcome", exchange.Answer{Status: 200, Body: []byte(body)})
		var unusable *Unusable
		require.ErrorAs(t, err, &unusable, body)
		require.False(t, unusable.Gone)
		require.ErrorContains(t, err, problem, body)
	}
	// What the template service cannot have answered.
	for _, body := range []string{
		"", "null", "[]", "{}", "7", `"OK"`, "OK", "<!DOCTYPE html>", `{"error":"no"}`, "[" + good + "]",
		good + "x", good[:len(good)-5],
		strings.Replace(good, `"code"`, `"CODE"`, 1),
		strings.Replace(good, `"code":"welcome",`, ``, 1),
		strings.Replace(good, `"code":"welcome"`, `"code":7`, 1),
		strings.Replace(good, `"code":"welcome"`, `"code":null`, 1),
		strings.Replace(good, `"type":"push",`, ``, 1),
		strings.Replace(good, `"push"`, `["push"]`, 1),
		strings.Replace(good, `"Hi"`, `["Hi"]`, 1),
		strings.Replace(good, `"Hi"`, "\"\xff\"", 1),
		strings.Replace(good, `"Hi"`, `"\ud800"`, 1),
		strings.Replace(good, `"title"`, `"body"`, 1),
		`{"code":"welcome","type":"push","content":null}`,
		`{"code":"welcome","type":"push","content":[]}`,
		`{"code":"welcome","type":"push","content":{"subject":"Hi","text":"there"}}`,
		`{"code":"welcome","type":"push","title":"Hi"}`,
	} {
		_, err := decode("welcome", exchange.Answer{Status: 200, Body: []byte(body)})
		var unavailable *Unavailable
		require.ErrorAs(t, err, &unavailable, body)
		require.True(t, unavailable.Alarm, body)
		require.ErrorContains(t, err, "the template service is not available: the answer is not the template service's, see template.url: 200 ", body)
	}
}
