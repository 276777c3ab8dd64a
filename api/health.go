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
			result := checkReport{Status: healthy, ResponseTimeMS: time.Since(started).Milliseconds()}
			var stopped *Paused
			switch {
			case errors.As(err, &stopped):
				result.Status, result.Paused = paused, stopped.Queues
			case err != nil:
				result.Status, result.Error = unhealthy, err.Error()
			}
			mutex.Lock()
			defer mutex.Unlock()
			report.Checks[check.Name] = result
			if result.Status == unhealthy {
				report.Status = unhealthy
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
	if r.Status == healthy {
		return http.StatusOK
	}
	return http.StatusServiceUnavailable
}

func (s *Server) healthReport(c echo.Context) error {
	report := s.health.report(c.Request().Context())
	return writeJSON(c, report.httpStatus(), report)
}

// live says that the process answers; it looks at nothing else.
func (s *Server) live(c echo.Context) error { return c.String(http.StatusOK, "live\n") }

func (s *Server) ready(c echo.Context) error {
	report := s.health.report(c.Request().Context())
	if report.Status == healthy {
		return c.String(http.StatusOK, "ready\n")
	}
	return c.String(report.httpStatus(), "unready\n")
}
