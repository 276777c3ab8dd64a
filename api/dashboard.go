package api

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"

	"github.com/labstack/echo/v4"

	"pushq/internal/sameorigin"
)

// Dashboard is a page for operators that protects nothing by itself, and who
// may see it. API keys do not open it.
type Dashboard struct {
	// Handler serves everything under Path; nil for no dashboard.
	Handler http.Handler
	// Path is where browsers see it, and what its pages link to: DashboardPath, or another
	// one if a proxy hands on what is below that. "" is the root.
	Path string
	// Origin is what browsers name as that of its pages, such as https://ops.example, if a
	// proxy does not hand on the Host that they have sent. It may be empty.
	Origin string
	// Scripts are those that stand in its page itself.
	Scripts []string
	// User and Password are asked for by HTTP basic authentication. If the
	// password is empty, only clients on this host are served.
	User, Password string
}

// DashboardPath is where the dashboard is.
const DashboardPath = "/monitoring"

// policy lets asynqmon's page load from this server only. Its inline scripts, which depend
// on its path, are named by their hashes. Its styles are written by scripts. It also
// asks for fonts of Google, which it does without.
func (d Dashboard) policy() string {
	sources := "'self'"
	for _, script := range d.Scripts {
		hash := sha256.Sum256([]byte(script))
		sources += " 'sha256-" + base64.StdEncoding.EncodeToString(hash[:]) + "'"
	}
	return "default-src 'none'; script-src " + sources + "; " +
		"style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; manifest-src 'self'; " +
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}

// isDashboard reports whether path is a route of the dashboard.
func isDashboard(path string) bool {
	return path == DashboardPath || path == DashboardPath+"/*"
}

// enterDashboard returns the problem of those who may not see the dashboard. It
// stands before its routes, so that nobody else learns which methods they know.
func (s *Server) enterDashboard(c echo.Context) error {
	header := c.Response().Header()
	header.Set("X-Frame-Options", "DENY")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Content-Security-Policy", s.dashboardPolicy)
	if err := s.mayOpenDashboard(c); err != nil {
		return err
	}
	// Browsers add a password that they know to requests of any site.
	return refuseOtherSites(&s.dashboardOrigin, c.Request())
}

// serveDashboard logs what people do there. Its handler sees the path that browsers see.
func (s *Server) serveDashboard(c echo.Context) error {
	request := c.Request().Clone(c.Request().Context())
	request.URL.Path = s.Dashboard.Path + strings.TrimPrefix(request.URL.Path, DashboardPath)
	if request.URL.RawPath != "" {
		request.URL.RawPath = s.Dashboard.Path + strings.TrimPrefix(request.URL.RawPath, DashboardPath)
	}
	if request.URL.Path == "" {
		request.URL.Path = "/"
	}
	s.Dashboard.Handler.ServeHTTP(c.Response(), request)
	if method := c.Request().Method; method != http.MethodGet && method != http.MethodHead {
		s.Log.Info("operator", slog.String("action", "dashboard"), slog.String("caller", s.Dashboard.User),
			slog.String("request", method+" "+c.Request().URL.Path), slog.Int("status", c.Response().Status))
	}
	return nil
}

// mayOpenDashboard returns the problem of those who may not.
func (s *Server) mayOpenDashboard(c echo.Context) error {
	request := c.Request()
	if s.Dashboard.Password == "" {
		return mayOpenWithoutPassword(request)
	}
	user, password, _ := request.BasicAuth()
	if rightUser, rightPassword := sameText(user, s.Dashboard.User), sameText(password, s.Dashboard.Password); !rightUser || !rightPassword {
		s.logWrongLogin(request, true)
		c.Response().Header().Set(echo.HeaderWWWAuthenticate, `Basic realm="pushq dashboard", charset="UTF-8"`)
		return newProblem(http.StatusUnauthorized, "unauthorized", "Unauthorized", "The dashboard needs its user and password.")
	}
	return nil
}

// mayOpenWithoutPassword looks at the connection, not at what a header says of
// it.
func mayOpenWithoutPassword(request *http.Request) error {
	client, err := netip.ParseAddrPort(request.RemoteAddr)
	if err != nil || !client.Addr().IsLoopback() {
		return forbidden("Without dashboard.password, the dashboard is for clients on its own host only.")
	}
	if !sameorigin.NamesThisHost(request) {
		return forbidden("Without dashboard.password, the dashboard's address must begin with localhost, 127.0.0.1 or [::1].")
	}
	return nil
}

// sameText takes equally long whatever the texts are.
func sameText(a, b string) bool {
	first, second := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(first[:], second[:]) == 1
}

func forbidden(detail string) *problem {
	return newProblem(http.StatusForbidden, "forbidden", "Forbidden", detail)
}
