package openapitest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func parseShop(t *testing.T) *Description {
	t.Helper()
	description, err := Parse([]byte(shop))
	require.NoError(t, err)
	return description
}

// An exchange with headers as lines.
type exchange struct {
	method, path, header, body                string
	status                                    int
	answerHeader, answerMediaType, answerBody string
}

func (e exchange) check(d *Description) error {
	request := httptest.NewRequest(e.method, e.path, strings.NewReader(e.body))
	request.Header = headers(e.header)
	answer := &http.Response{StatusCode: e.status, Header: headers(e.answerHeader)}
	if e.answerMediaType != "" {
		answer.Header.Set("Content-Type", e.answerMediaType)
	}
	return d.Check(request, []byte(e.body), answer, []byte(e.answerBody))
}

func headers(lines string) http.Header {
	header := http.Header{}
	for line := range strings.Lines(lines) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		header.Add(name, value)
	}
	return header
}

const (
	isJSON  = "Content-Type: application/json\n"
	problem = "application/problem+json"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		exchange exchange
		reason   string // empty if it is as described
	}{
		"accepted": {exchange{"POST", "/orders", isJSON, `{"count":1,"note":null}`, 202, "Location: /orders/1", "", ""}, ""},
		"accepted, all headers": {exchange{"POST", "/orders", isJSON + "Key: abc", `{"count":1}`, 202,
			"Location: /orders/1\nReplayed: true\nDate: now\nContent-Length: 0", "", ""}, ""},
		"refused":               {exchange{"POST", "/orders", isJSON, `{"count":"x"}`, 400, "", problem, `{}`}, ""},
		"list":                  {exchange{"GET", "/orders?limit=5", "", "", 200, "Total: 1", "application/json", `[{"count":1}]`}, ""},
		"charset":               {exchange{"GET", "/orders?limit=5", "", "", 200, "", "application/json; charset=utf-8", `[]`}, ""},
		"one":                   {exchange{"GET", "/orders/17", "", "", 200, "", "application/vnd.order+json", `{"count":1,"at":"2026-11-27T09:00:00Z"}`}, ""},
		"path before variables": {exchange{"GET", "/orders/latest", "", "", 200, "", "text/plain", "latest\n"}, ""},
		"HEAD":                  {exchange{"HEAD", "/orders/17", "", "", 200, "", "application/vnd.order+json", ""}, ""},
		"strange address":       {exchange{"GET", "/nothing", "", "", 404, "", problem, `{}`}, ""},
		"strange method":        {exchange{"DELETE", "/orders", "", "", 405, "", problem, `{}`}, ""},
		"no key":                {exchange{"DELETE", "/nothing", "", "", 401, "WWW-Authenticate: Bearer", problem, `{}`}, ""},
		"forbidden":             {exchange{"GET", "/nothing", "", "", 403, "", problem, `{}`}, ""},

		"undescribed status":          {exchange{"POST", "/orders", isJSON, `{"count":1}`, 200, "", "", ""}, "status is not described"},
		"status of another operation": {exchange{"GET", "/orders?limit=5", "", "", 400, "", problem, `{}`}, "status is not described"},
		"strange address, success":    {exchange{"GET", "/nothing", "", "", 200, "", "", ""}, "status is not described"},
		"strange method, not found":   {exchange{"DELETE", "/orders", "", "", 404, "", problem, `{}`}, "status is not described"},
		"strange address, 405":        {exchange{"DELETE", "/nothing", "", "", 405, "", problem, `{}`}, "status is not described"},
		"no key, not said how":        {exchange{"GET", "/nothing", "", "", 401, "", problem, `{}`}, "Www-Authenticate: is missing"},

		"accepted a wrong body":         {exchange{"POST", "/orders", isJSON, `{"count":"x"}`, 202, "Location: /orders/1", "", ""}, "the request was accepted: its body"},
		"accepted an unknown field":     {exchange{"POST", "/orders", isJSON, `{"count":1,"x":1}`, 202, "Location: /orders/1", "", ""}, "the request was accepted: its body"},
		"accepted no JSON":              {exchange{"POST", "/orders", isJSON, `{"count":1}}`, 202, "Location: /orders/1", "", ""}, "the request was accepted: its body"},
		"accepted another media type":   {exchange{"POST", "/orders", "Content-Type: text/plain", `{"count":1}`, 202, "Location: /orders/1", "", ""}, "media type text/plain"},
		"accepted a wrong header":       {exchange{"POST", "/orders", isJSON + "Key: 1", `{"count":1}`, 202, "Location: /orders/1", "", ""}, "its header Key"},
		"accepted a header twice":       {exchange{"POST", "/orders", isJSON + "Key: a\nKey: a", `{"count":1}`, 202, "Location: /orders/1", "", ""}, "2 times"},
		"accepted a missing parameter":  {exchange{"GET", "/orders", "", "", 200, "", "application/json", `[]`}, "its query limit: is missing"},
		"accepted a wrong parameter":    {exchange{"GET", "/orders?limit=0", "", "", 200, "", "application/json", `[]`}, "its query limit"},
		"accepted no number":            {exchange{"GET", "/orders?limit=x", "", "", 200, "", "application/json", `[]`}, "its query limit"},
		"accepted an unknown parameter": {exchange{"GET", "/orders?limit=1&page=2", "", "", 200, "", "application/json", `[]`}, "page"},
		"accepted a wrong path":         {exchange{"GET", "/orders/x", "", "", 200, "", "application/vnd.order+json", `{"count":1}`}, "its path id"},
		"accepted a body with GET":      {exchange{"GET", "/orders/1", "", "x", 200, "", "application/vnd.order+json", `{"count":1}`}, "its body"},

		"header missing":             {exchange{"POST", "/orders", isJSON, `{"count":1}`, 202, "", "", ""}, "Location: is missing"},
		"header wrong":               {exchange{"POST", "/orders", isJSON, `{"count":1}`, 202, "Location: /x", "", ""}, "the header Location"},
		"number in a header wrong":   {exchange{"GET", "/orders?limit=5", "", "", 200, "Total: -1", "application/json", `[]`}, "the header Total"},
		"header of HEAD wrong":       {exchange{"HEAD", "/orders?limit=5", "", "", 200, "Total: -1", "application/json", ""}, "the header Total"},
		"header not described":       {exchange{"GET", "/orders?limit=5", "", "", 200, "Server: x", "application/json", `[]`}, "the header Server is not described"},
		"body wrong":                 {exchange{"GET", "/orders?limit=5", "", "", 200, "", "application/json", `[{"count":null}]`}, "the answer"},
		"time wrong":                 {exchange{"GET", "/orders/1", "", "", 200, "", "application/vnd.order+json", `{"count":1,"at":"now"}`}, "the answer"},
		"field not described":        {exchange{"GET", "/orders?limit=5", "", "", 200, "", "application/json", `[{"count":1,"x":1}]`}, "the answer"},
		"text wrong":                 {exchange{"GET", "/orders/latest", "", "", 200, "", "text/plain", "latest"}, "the answer"},
		"media type wrong":           {exchange{"GET", "/orders/1", "", "", 200, "", "application/json", `{"count":1}`}, "media type application/json"},
		"media type missing":         {exchange{"GET", "/orders/1", "", "", 200, "", "", `{"count":1}`}, "media type"},
		"body missing":               {exchange{"GET", "/orders/1", "", "", 200, "", "application/vnd.order+json", ""}, "the answer"},
		"body that is not described": {exchange{"POST", "/orders", isJSON, `{"count":1}`, 202, "Location: /orders/1", "", "{}"}, "a body is not described"},
		"HEAD with a body":           {exchange{"HEAD", "/orders/1", "", "", 200, "", "application/vnd.order+json", `{"count":1}`}, "HEAD was answered with a body"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := test.exchange.check(parseShop(t))
			if test.reason == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, test.reason)
		})
	}
}

func TestUnseen(t *testing.T) {
	t.Parallel()
	description := parseShop(t)
	all := []string{"GET /orders 200", "POST /orders 202", "POST /orders 400", "GET /orders/latest 200", "GET /orders/{id} 200"}
	require.Equal(t, all, description.Unseen())
	require.Equal(t, all[:4], description.Unseen("GET /orders/{id}"))
	require.NoError(t, exchange{"HEAD", "/orders/latest", "", "", 200, "", "text/plain", ""}.check(description))
	require.Error(t, exchange{"GET", "/orders/latest", "", "", 200, "", "text/plain", ""}.check(description))
	require.Equal(t, all, description.Unseen(), "neither half an answer nor a wrong one is seen")
	require.NoError(t, exchange{"GET", "/orders/latest", "", "", 200, "", "text/plain", "latest\n"}.check(description))
	require.NoError(t, exchange{"POST", "/orders", "", "", 400, "", problem, "{}"}.check(description))
	require.Equal(t, []string{"GET /orders 200", "POST /orders 202", "GET /orders/{id} 200"}, description.Unseen())
}

func TestTransport(t *testing.T) {
	t.Parallel()
	var location string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || string(body) != `{"count":1}` || r.ContentLength != -1 {
			http.Error(w, "not what was sent", http.StatusTeapot)
			return
		}
		w.Header().Set("Location", location)
		w.WriteHeader(http.StatusAccepted)
	}))
	defer server.Close()
	client := http.Client{Transport: parseShop(t).Transport(http.DefaultTransport)}
	defer client.CloseIdleConnections()
	post := func() error {
		unknownLength := struct{ io.Reader }{strings.NewReader(`{"count":1}`)}
		answer, err := client.Post(server.URL+"/orders", "application/json", unknownLength)
		if err != nil {
			return err
		}
		return answer.Body.Close()
	}
	location = "/orders/1"
	require.NoError(t, post())
	location = "/"
	require.ErrorContains(t, post(), "POST /orders, answered 202, departs from the description: the header Location")
}
