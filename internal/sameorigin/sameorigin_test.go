package sameorigin

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNamesThisHost(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]bool{
		"localhost": true, "localhost:8080": true, "LOCALHOST:1": true, "localhost.": true, "localhost.:8080": true,
		"127.0.0.1": true, "127.0.0.1:8080": true, "127.9.9.9:1": true, "[::1]": true, "[::1]:8080": true, "[::ffff:127.0.0.1]:80": true,
		"": false, ":8080": false, "evil.example": false, "evil.example:8080": false, "localhost.evil.example": false,
		"127.0.0.1.evil.example:80": false, "evil.localhost": false, "localhost..": false, "localhost@evil.example": false,
		"localhost:80:evil.example": false, "0.0.0.0:8080": false, "[::]:8080": false, "192.0.2.1": false, "10.0.0.1:8080": false,
		"::1": false, "[::1": false, "2130706433": false, "127.1": false, "localhost/": false, " localhost": false,
	} {
		require.Equal(t, want, NamesThisHost(&http.Request{Host: host}), host)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	const site, mode, dest, origin = "Sec-Fetch-Site", "Sec-Fetch-Mode", "Sec-Fetch-Dest", "Origin"
	for name, test := range map[string]struct {
		header []string
		// read is whether GET passes, change whether POST does.
		read, change bool
	}{
		"program":                     {nil, true, true},
		"page of its own":             {[]string{site, "same-origin", mode, "cors"}, true, true},
		"typed address":               {[]string{site, "none", mode, "navigate", dest, "document"}, true, true},
		"link of another site":        {[]string{site, "cross-site", mode, "navigate", dest, "document"}, true, false},
		"frame of another site":       {[]string{site, "cross-site", mode, "navigate", dest, "iframe"}, false, false},
		"fetch of another site":       {[]string{site, "cross-site", mode, "no-cors", dest, "empty"}, false, false},
		"image of another site":       {[]string{site, "cross-site", mode, "no-cors", dest, "image"}, false, false},
		"fetch of another port":       {[]string{site, "same-site", mode, "cors", dest, "empty", origin, "http://localhost:9999"}, false, false},
		"unknown word":                {[]string{site, "elsewhere"}, false, false},
		"old browser, its own page":   {[]string{origin, "http://localhost:8080"}, true, true},
		"old browser, another site":   {[]string{origin, "https://evil.example"}, false, false},
		"old browser, another port":   {[]string{origin, "http://localhost:9999"}, false, false},
		"old browser, page in a file": {[]string{origin, "null"}, false, false},
	} {
		for method, want := range map[string]bool{
			http.MethodGet: test.read, http.MethodHead: test.read && name != "link of another site", http.MethodPost: test.change, http.MethodDelete: test.change,
			http.MethodOptions: test.read && name != "link of another site",
		} {
			request := &http.Request{Method: method, Host: "localhost:8080", Header: http.Header{}}
			for place := 0; place < len(test.header); place += 2 {
				request.Header.Set(test.header[place], test.header[place+1])
			}
			require.Equal(t, want, Check(new(http.CrossOriginProtection), request) == nil, "%s %s", method, name)
			require.Equal(t, method, request.Method)
		}
	}
}
