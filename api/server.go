// Package api is HTTP in: pushes accepted and looked up, health, and problems
// in one form (RFC 9457) for everything that goes wrong.
package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/labstack/echo/v4"
	"golang.org/x/time/rate"

	"pushq/internal/metrics"
	"pushq/internal/tracing"
	"pushq/tasks"
)

// Intake stores accepted pushes (tasks.Intake).
type Intake interface {
	Accept(ctx context.Context, push tasks.Push, keyed bool) (replayed bool, err error)
	Claim(ctx context.Context, push tasks.Push) (tasks.Claim, error)
}

// Reader tells what became of pushes (a tasks.Reader for each channel).
type Reader interface {
	Get(ctx context.Context, id string) (tasks.Report, error)
	List(ctx context.Context, channel tasks.Channel, state tasks.State, limit int, cursor string) (tasks.Page, error)
	Count(ctx context.Context, channel tasks.Channel) ([]tasks.Count, error)
}

// Clock tells the time that all processes share (redisconn.Clock).
type Clock interface {
	Now() time.Time
}

// Options of a Server.
type Options struct {
	// Intake, Reader and Operator are nil in a process that only works: it
	// serves health and metrics alone.
	Intake   Intake
	Reader   Reader
	Operator Operator
	// Channels are those of Reader and Operator; the first one is meant where none is
	// named.
	Channels []tasks.Channel
	// Notifications is nil where no templated channel is served.
	Notifications Notifications
	// History is nil where none is kept.
	History History
	Clock   Clock
	// Checks are what health looks at.
	Checks  []Check
	Metrics *metrics.Metrics

	// APIKeys maps names to keys; empty means that no key is asked for.
	APIKeys map[string]string
	// AnyHost is whether a server without keys answers under every name. Otherwise it
	// answers as this host only, by a loopback address or localhost.
	AnyHost bool
	// Dashboard is served if it has a handler.
	Dashboard Dashboard
	// MaxBodyBytes bounds the body of one push, MaxBatchBytes that of a batch.
	MaxBodyBytes, MaxBatchBytes int64
	// Zone is for windows of pushes that name none.
	Zone *time.Location
	// RedisTimeout is how long a caller waits for Redis; 0 is two and a half seconds.
	RedisTimeout time.Duration
	// MaxSchedule is how far ahead a push may be due.
	MaxSchedule time.Duration
	// Mapped reports whether a push key is configured for a prototype.
	Mapped func(prototype, platform string) bool

	// Tracer is nil if pushq makes no spans.
	Tracer *tracing.Tracer
	Log    *slog.Logger
}

const (
	// A client that is slow or sends without end is cut off.
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 10 * time.Second
	writeTimeout      = 30 * time.Second
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 16 << 10

	stopTimeout = 10 * time.Second

	redisTimeout = 2500 * time.Millisecond
)

// Server serves the API. It is safe for concurrent use.
type Server struct {
	Options
	http   *http.Server
	keys   keyring
	health *health

	crossOrigin      http.CrossOriginProtection
	dashboardOrigin  http.CrossOriginProtection
	dashboardPolicy  string
	batches          slots
	lists, searches  slots
	transferGrace    time.Duration
	unmappedWarnings *rate.Sometimes
	wrongLogins      *rate.Sometimes
}

// New prepares a server.
func New(options Options) *Server {
	if options.RedisTimeout == 0 {
		options.RedisTimeout = redisTimeout
	}
	s := &Server{
		Options: options,
		keys:    newKeyring(options.APIKeys),
		health:  newHealth(options.Checks),

		batches:          newSlots("batches", maxBatches, options.APIKeys, options.RedisTimeout),
		lists:            newSlots("lists of pushes", maxLists, options.APIKeys, options.RedisTimeout),
		searches:         newSlots("searches of the history", maxSearches, options.APIKeys, options.RedisTimeout),
		transferGrace:    transferGrace,
		unmappedWarnings: newUnmappedWarnings(),
		wrongLogins:      &rate.Sometimes{Interval: time.Second},
	}
	s.dashboardPolicy = options.Dashboard.policy()
	if origin := options.Dashboard.Origin; origin != "" {
		if err := s.dashboardOrigin.AddTrustedOrigin(origin); err != nil { // the configuration has been checked
			s.Log.Error("dashboard.url names no origin", slog.Any("error", err))
		}
	}
	s.http = &http.Server{
		Handler:           s.routes(),
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(options.Log.Handler(), slog.LevelDebug),
		// net/http would answer OPTIONS * by itself, without asking for a key.
		DisableGeneralOptionsHandler: true,
	}
	return s
}

// routes names every resource once.
func (s *Server) routes() http.Handler {
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.HTTPErrorHandler = s.writeProblem
	e.Use(protect, s.endConnections, s.recoverPanics, s.authenticate)

	read := []string{http.MethodGet, http.MethodHead}
	e.Match(read, livePath, s.live)
	e.Match(read, readyPath, s.ready)
	e.Match(read, "/health", s.healthReport)
	e.Match(read, "/openapi.yaml", s.describe)
	e.Match(read, "/metrics", echo.WrapHandler(s.Metrics.Handler()))
	if s.Intake != nil {
		e.POST("/push", s.acceptPush)
		e.POST("/push/batch", s.acceptBatch)
		e.POST("/push/retry", s.retryPushes)
		e.POST("/push/cancel", s.cancelPushes)
		e.Match(read, "/push", s.listPushes)
		e.Match(read, "/push/count", s.countPushes)
		e.Match(read, "/push/:id", s.getPush)
		e.DELETE("/push/:id", s.cancelPush)
		e.POST("/push/:id/retry", s.retryPush)
		e.POST("/notifications", s.acceptNotification)
		e.Match(read, "/history", s.searchHistory)
	}
	if s.Dashboard.Handler != nil {
		e.Any(DashboardPath, s.serveDashboard)
		e.Any(DashboardPath+"/*", s.serveDashboard)
	}
	return e
}

// Serve answers requests until Stop. It returns nil after Stop.
func (s *Server) Serve(listener net.Listener) error {
	if err := s.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve http: %w", err)
	}
	return nil
}

// Leave says "not ready", and asks callers for new connections, which a load balancer
// that looks at readiness opens elsewhere. All requests are answered as before, until
// Stop.
func (s *Server) Leave() { s.health.stop() }

// Stop says "not ready", takes no new requests and returns when those under way
// have been answered, or after ten seconds.
func (s *Server) Stop() error {
	s.health.stop()
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if err := s.http.Shutdown(ctx); err != nil {
		return errors.Join(fmt.Errorf("stop http: %w", err), s.http.Close())
	}
	return nil
}

// protect sets the headers that hold for every answer: what is in it is not for
// caches, and is of the type that it says.
func protect(next echo.HandlerFunc) echo.HandlerFunc {
	noSniff, noStore := []string{"nosniff"}, []string{"no-store"} // shared by all answers
	return func(c echo.Context) error {
		header := c.Response().Header()
		header["X-Content-Type-Options"] = noSniff
		header["Cache-Control"] = noStore
		return next(c)
	}
}

// endConnections ends each connection with its next answer once the server leaves. Those
// that are idle stay open: a request may be on its way there.
func (s *Server) endConnections(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if s.health.stopping.Load() {
			c.Response().Header().Set("Connection", "close")
		}
		return next(c)
	}
}

// recoverPanics turns a panic into a problem, so that it ends one request only,
// and logs where it came from.
func (s *Server) recoverPanics(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) (err error) {
		defer func() {
			if cause := recover(); cause != nil {
				err = s.panicked(c.Path(), cause)
			}
		}()
		return next(c)
	}
}

// panicked logs what was recovered, and where it came from.
func (s *Server) panicked(route string, cause any) error {
	err := fmt.Errorf("panic: %v", cause)
	s.Log.Error("panic while serving a request", slog.String("route", route),
		slog.Any("error", err), slog.String("stack", string(debug.Stack())))
	return err
}
