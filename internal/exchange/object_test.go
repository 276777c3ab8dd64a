package exchange_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pushq/internal/exchange"
)

func TestWhatIsAnObject(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]bool{
		`{}`: true, `{"a":1}`: true, " \r\n{} ": true, "\ufeff{}": true, "\n\ufeff\n{}": true, "{\"a\":\"\xff\"}": true,
		``: false, `null`: false, `[]`: false, `"{}"`: false, `7`: false, `{`: false, `{}x`: false, `{} {}`: false, `<a>`: false, "\xfe\xff\x00{": false,
		strings.Repeat(`{"a":`, 20_000): false, // deeper than JSON is read
	} {
		_, found := exchange.Answer{Body: []byte(body)}.Object()
		require.Equal(t, want, found, "%.40q", body)
	}
}

// A field of an unexpected type hides no other.
func TestFieldsAreReadOneByOne(t *testing.T) {
	t.Parallel()
	object, found := exchange.Answer{Body: []byte(`{
		"text":"a","number":7,"large":12345678901234567890123,"negative":-1e999,"object":{"text":"b"},"null":null,"yes":true,"no":false,
		"list":[{"text":"c"},null,7,"x",[],{"text":"d"}],"blank":" ","none":[ ],"zero":0}`)}.Object()
	require.True(t, found)
	for name, want := range map[string]string{"text": "a", "number": "", "object": "", "null": "", "list": "", "missing": ""} {
		require.Equal(t, want, object.Text(name), name)
	}
	for name, want := range map[string]json.Number{
		"number": "7", "large": "12345678901234567890123", "negative": "-1e999", "zero": "0", "text": "", "null": "", "object": "", "list": "", "yes": "", "missing": "",
	} {
		number, isNumber := object.Number(name)
		require.Equal(t, want, number, name)
		require.Equal(t, want != "", isNumber, name)
	}
	require.Equal(t, "b", object.Object("object").Text("text"))
	require.Empty(t, object.Object("text").Object("text").Text("text"))
	require.Nil(t, object.Object("null"))
	texts := func(name string) (texts []string) {
		for _, part := range object.Objects(name) {
			texts = append(texts, part.Text("text"))
		}
		return texts
	}
	require.Equal(t, []string{"c", "d"}, texts("list"))
	require.Equal(t, []string{"b"}, texts("object"), "one is a list of one")
	for _, name := range []string{"text", "number", "null", "missing", "none"} {
		require.Empty(t, texts(name), name)
	}
	for name, want := range map[string]bool{
		"text": true, "number": true, "object": true, "yes": true, "list": true, "negative": true,
		"null": false, "no": false, "blank": false, "none": false, "zero": false, "missing": false,
	} {
		require.Equal(t, want, object.Says(name), name)
	}
}

func TestWhatAForeignAnswerIs(t *testing.T) {
	t.Parallel()
	zipped := http.Header{"Content-Encoding": {"gzip"}}
	for want, answer := range map[string]exchange.Answer{
		"200 with a body that broke off or is too long":       {Status: 200, Body: []byte(`{"a":`), Cut: true},
		"404 without a body":                                  {Status: 404, Body: []byte("\ufeff \n")},
		"404 with an HTML page":                               {Status: 404, Body: []byte("\ufeff \n<html>secret</html>")},
		`200 in the encoding "gzip", which was not asked for`: {Status: 200, Body: []byte("\x1f\x8b"), Header: zipped},
		"200 with a body that is no text":                     {Status: 200, Body: []byte("a\x00b")},
		"200 a\r\n\tb":                                        {Status: 200, Body: []byte("a\r\n\tb\n")},
		"200 " + strings.Repeat("x", 2000):                    {Status: 200, Body: []byte(strings.Repeat("x", 2000))},
	} {
		require.Equal(t, "the answer is not Swrve's: "+want, answer.Foreign("Swrve's"))
	}
}
