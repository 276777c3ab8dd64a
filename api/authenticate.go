package api

import (
	"crypto/sha256"
	"crypto/subtle"
	"log/slog"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"pushq/internal/sameorigin"
)

// callerKey is where the name of the caller's API key is kept in a request.
const callerKey = "caller"

// keyring holds the API keys by their hashes, so that comparing takes equally
// long whatever is sent.
type keyring []namedKey

type namedKey struct {
	name string
	hash [sha256.Size]byte
}

func newKeyring(keys map[string]string) keyring {
	var ring keyring
	for name, key := range keys {
		ring = append(ring, namedKey{name, sha256.Sum256([]byte(key))})
	}
	return ring
}

// find compares with every key, without an early exit.
func (k keyring) find(key string) (name string, found bool) {
	hash := sha256.Sum256([]byte(key))
	for _, known := range k {
		if subtle.ConstantTimeCompare(hash[:], known.hash[:]) == 1 {
			name, found = known.name, true
		}
	}
	return name, found
}

// authenticate asks for a key everywhere (at /metrics too: they tell how much is
// sent) but at the two addresses that a load balancer asks, and at the
// dashboard, which has its own rules. It goes by the route that was found,
// because the router reads an escaped path otherwise than URL.Path shows it.
func (s *Server) authenticate(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		switch path := c.Path(); {
		case isDashboard(path):
			if err := s.enterDashboard(c); err != nil {
				return err
			}
			return next(c)
		case path == livePath || path == readyPath:
			return next(c)
		case len(s.keys) == 0:
			if err := s.enterWithoutKey(c.Request()); err != nil {
				return err
			}
			return next(c)
		}
		scheme, key, _ := strings.Cut(c.Request().Header.Get(echo.HeaderAuthorization), " ")
		name, found := s.keys.find(key)
		if !found || !strings.EqualFold(scheme, "Bearer") {
			s.logWrongLogin(c.Request(), false)
			c.Response().Header().Set(echo.HeaderWWWAuthenticate, "Bearer")
			return newProblem(http.StatusUnauthorized, "unauthorized", "Unauthorized", "Send a valid key as Authorization: Bearer.")
		}
		c.Set(callerKey, name)
		return next(c)
	}
}

// enterWithoutKey returns the problem of what a server without keys does not
// answer: it is for this host, but not for the pages that its browsers show.
func (s *Server) enterWithoutKey(request *http.Request) error {
	if !s.AnyHost && !sameorigin.NamesThisHost(request) {
		return forbidden("Without http.apiKeys, the address must begin with localhost, 127.0.0.1 or [::1]. " +
			"If a proxy on this host passes requests on, set keys, or http.allowAnonymous to answer under every name.")
	}
	return refuseOtherSites(&s.crossOrigin, request)
}

// refuseOtherSites returns the problem of requests that browsers make for pages
// of other sites: they reach this host from any page.
func refuseOtherSites(protection *http.CrossOriginProtection, request *http.Request) error {
	if sameorigin.Check(protection, request) != nil {
		return forbidden("The request comes from a page of another site.")
	}
	return nil
}

// logWrongLogin says once a second at most who has sent a wrong key or password.
// Browsers also ask without one first. What was sent is not logged: it may be
// nearly right.
func (s *Server) logWrongLogin(request *http.Request, dashboard bool) {
	if request.Header.Get(echo.HeaderAuthorization) == "" {
		return
	}
	s.wrongLogins.Do(func() {
		s.Log.Warn("wrong key or password", slog.String("remote", request.RemoteAddr), slog.Bool("dashboard", dashboard))
	})
}

// caller is the name of the request's API key, "" where none is asked for.
func caller(c echo.Context) string {
	name, _ := c.Get(callerKey).(string)
	return name
}
