package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"
)

const (
	livePath  = "/health/live"
	readyPath = "/health/ready"

	checkTimeout = time.Second
)

// A Check is one thing that must be well for the process to do its work.
type Check struct {
	Name string
	// Degrades means that the process goes on working without it, though not
	// fully: it is reported, but a load balancer must not turn away for it.
	Degrades bool
	// Run returns what is wrong, for the operator to read; a *Paused is
	// shown, but nothing is wrong with it.
	Run func(context.Context) error
}

// Paused is the result of a check that found queues that somebody has stopped:
// the process does its work, and accepts pushes.
type Paused struct {
	Queues []string
}

func (p *Paused) Error() string { return fmt.Sprintf("paused: %v", p.Queues) }

// run is Run without its panics: each check has a goroutine of its own, in
// which a panic would end the process.
func (c Check) run(ctx context.Context) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("the check panicked: %v", cause)
		}
	}()
	return c.Run(ctx)
}

func (c Check) status(err error) string {
	var stopped *Paused
	switch {
	case err == nil:
		return healthy
	case errors.As(err, &stopped):
		return paused
	case c.Degrades:
		return degraded
	default:
		return unhealthy
	}
}

type health struct {
	checks   []Check
	stopping atomic.Bool
}

func newHealth(checks []Check) *health { return &health{checks: checks} }

func (h *health) stop() { h.stopping.Store(true) }

type healthReport struct {
	Status    string                 `json:"status"`
	Timestamp string                 `json:"timestamp"`
	Checks    map[string]checkReport `json:"checks"`
}

type checkReport struct {
	Status         string `json:"status"`
	ResponseTimeMS int64  `json:"response_time_ms"`
	Error          string `json:"error,omitempty"`
	// Paused names the queues that somebody has stopped.
	Paused []string `json:"paused,omitempty"`
}

const (
	healthy   = "healthy"
	degraded  = "degraded"
	unhealthy = "unhealthy"
	paused    = "paused" // of one check only
)

// report runs all checks at once.
func (h *health) report(ctx context.Context) healthReport {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	report := healthReport{Status: healthy, Timestamp: formatTime(time.Now()), Checks: make(map[string]checkReport)}
	var mutex sync.Mutex
	var all sync.WaitGroup
	for _, check := range h.checks {
		all.Go(func() {
			started := time.Now()
			err := check.run(ctx)
			result := checkReport{Status: check.status(err), ResponseTimeMS: time.Since(started).Milliseconds()}
			var stopped *Paused
			if errors.As(err, &stopped) {
				result.Paused = stopped.Queues
			} else if err != nil {
				result.Error = err.Error()
			}
			mutex.Lock()
			defer mutex.Unlock()
			report.Checks[check.Name] = result
			switch {
			case result.Status == unhealthy, result.Status == degraded && report.Status == healthy:
				report.Status = result.Status
			}
		})
	}
	all.Wait()
	if h.stopping.Load() {
		report.Status = unhealthy
	}
	return report
}

func (r healthReport) httpStatus() int {
	if r.Status == unhealthy {
		return http.StatusServiceUnavailable
	}
	return http.StatusOK
}

func (s *Server) healthReport(c echo.Context) error {
	report := s.health.report(c.Request().Context())
	return writeJSON(c, report.httpStatus(), report)
}

// live says that the process answers; it looks at nothing else.
func (s *Server) live(c echo.Context) error { return c.String(http.StatusOK, "live\n") }

func (s *Server) ready(c echo.Context) error {
	report := s.health.report(c.Request().Context())
	if report.Status == unhealthy {
		return c.String(report.httpStatus(), "unready\n")
	}
	return c.String(report.httpStatus(), "ready\n")
}
