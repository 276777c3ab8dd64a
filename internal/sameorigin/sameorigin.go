// Package sameorigin keeps web pages away from servers that ask for no key. A browser on
// this host reaches what listens on loopback, and does so for any page that it shows: by
// the address itself, or by a name of its own that a site has pointed at this host (DNS
// rebinding).
package sameorigin

import (
	"net/http"
	"net/url"

	"pushq/internal/loopback"
)

// NamesThisHost reports whether the Host of a request is a loopback address or localhost,
// with any port. The name there is that of the page, so a site that has pointed its own
// name at this host is told from a page of this host. Without a Host it is false.
func NamesThisHost(request *http.Request) bool {
	return loopback.Is((&url.URL{Host: request.Host}).Hostname())
}

// Check returns an error if a browser sends the request for a page of another origin. What
// programs send passes, and so does a link that somebody follows: a page that has the link
// does not see what comes of it.
func Check(protection *http.CrossOriginProtection, request *http.Request) error {
	if request.Method == http.MethodGet && followsLink(request.Header) {
		return nil
	}
	// The library lets GET and HEAD pass whoever asks. Here they read what is not for
	// every page, so they are checked like the methods that change something.
	asked := *request
	asked.Method = http.MethodPost
	return protection.Check(&asked)
}

// followsLink reports whether what is asked for is shown as a page of its own, not in a
// frame of another one.
func followsLink(header http.Header) bool {
	return header.Get("Sec-Fetch-Mode") == "navigate" && header.Get("Sec-Fetch-Dest") == "document"
}
