package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"

	"pushq/internal/breaker"
)

const (
	livePath  = "/health/live"
	readyPath = "/health/ready"

	checkTimeout = time.Second
)

// A Check is one thing that must be well for the process to do its work.
type Check struct {
	Name string
	// Also is another name that the same finding is shown under, if it is not empty.
	Also string
	// Degrades means that the process goes on working without it, though not
	// fully: it is reported, but a load balancer must not turn away for it.
	Degrades bool
	// Run returns what is wrong, for the operator to read; a *Paused is
	// shown, but nothing is wrong with it. A *Circuit is wrong unless it is closed.
	// It ends soon after its context.
	Run func(context.Context) error
}

// Paused is the result of a check that found queues that somebody has stopped:
// the process does its work, and accepts pushes.
type Paused struct {
	Queues []string
	// Until is when the last of them goes on by itself; zero if one does not.
	Until time.Time
}

func (p *Paused) Error() string { return fmt.Sprintf("paused: %v", p.Queues) }

// Braked is the result of a check that found channels whose provider has asked everybody to
// wait: nothing is sent meanwhile.
type Braked struct {
	Brakes []Brake
}

// A Brake is why nothing is sent through a channel for a while.
type Brake struct {
	Channel string
	// Since is when it began, zero if that is not known.
	Since, Until time.Time
	// Answer is what the provider said.
	Answer string
}

func (b *Braked) Error() string { return "the provider has asked everybody to wait" }

// Circuit is the result of a check that found a circuit breaker in that state.
type Circuit struct {
	breaker.Status
}

func (c *Circuit) Error() string { return fmt.Sprintf("the circuit breaker is %s", c.State) }

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
	var circuit *Circuit
	switch {
	case err == nil, errors.As(err, &circuit) && circuit.State == breaker.Closed:
		return healthy
	case errors.As(err, &stopped):
		return paused
	case c.Degrades:
		return degraded
	default:
		return unhealthy
	}
}

// report runs the check and shows what it has found.
func (c Check) report(ctx context.Context) checkReport {
	started := time.Now()
	err := c.run(ctx)
	took := time.Since(started).Milliseconds()
	result := checkReport{Status: c.status(err), ResponseTimeMS: &took}
	var stopped *Paused
	var circuit *Circuit
	var braked *Braked
	switch {
	case errors.As(err, &braked):
		result.Error = braked.Error()
		for _, brake := range braked.Brakes {
			result.Brakes = append(result.Brakes, brakeReport{brake.Channel, timeOrNull(brake.Since), formatTime(brake.Until), brake.Answer})
		}
	case errors.As(err, &stopped):
		result.Paused, result.PausedUntil = stopped.Queues, timeOrNull(stopped.Until)
	case errors.As(err, &circuit):
		// The service was not asked, so there is no time to tell.
		result.CircuitBreaker, result.ResponseTimeMS = circuit.State, nil
		if circuit.Refused {
			result.Error = "it refuses pushq itself: mend the configuration"
		}
	case err != nil:
		result.Error = err.Error()
	}
	return result
}

type health struct {
	checks   []Check
	vital    []Check // without which the process is not ready
	stopping atomic.Bool
}

func newHealth(checks []Check) *health {
	degrading := func(check Check) bool { return check.Degrades }
	return &health{checks: checks, vital: slices.DeleteFunc(slices.Clone(checks), degrading)}
}

func (h *health) stop() { h.stopping.Store(true) }

type healthReport struct {
	Status    string                 `json:"status"`
	Timestamp string                 `json:"timestamp"`
	Checks    map[string]checkReport `json:"checks"`
}

type checkReport struct {
	Status         string        `json:"status"`
	ResponseTimeMS *int64        `json:"response_time_ms,omitempty"`
	CircuitBreaker breaker.State `json:"circuit_breaker,omitempty"`
	Error          string        `json:"error,omitempty"`
	// Paused names the queues that somebody has stopped.
	Paused []string `json:"paused,omitempty"`
	// PausedUntil is when that ends by itself, if it does.
	PausedUntil *string `json:"paused_until,omitempty"`
	// Brakes are those that are in force.
	Brakes []brakeReport `json:"brakes,omitempty"`
}

type brakeReport struct {
	Channel string  `json:"channel"`
	Since   *string `json:"since,omitempty"`
	Until   string  `json:"until"`
	Answer  string  `json:"answer,omitempty"`
}

const (
	healthy   = "healthy"
	degraded  = "degraded"
	unhealthy = "unhealthy"
	paused    = "paused" // of one check only
)

// report runs the checks, all at once.
func (h *health) report(ctx context.Context, checks []Check) healthReport {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	report := healthReport{Status: healthy, Timestamp: formatTime(time.Now()), Checks: make(map[string]checkReport)}
	var mutex sync.Mutex
	var all sync.WaitGroup
	for _, check := range checks {
		all.Go(func() {
			result := check.report(ctx)
			mutex.Lock()
			defer mutex.Unlock()
			report.Checks[check.Name] = result
			if check.Also != "" {
				report.Checks[check.Also] = result
			}
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
	report := s.health.report(c.Request().Context(), s.health.checks)
	return writeJSON(c, report.httpStatus(), report)
}

// live says that the process answers; it looks at nothing else.
func (s *Server) live(c echo.Context) error { return c.String(http.StatusOK, "live\n") }

// ready asks nothing that could only degrade: who asks may be less patient than that is
// slow.
func (s *Server) ready(c echo.Context) error {
	report := s.health.report(c.Request().Context(), s.health.vital)
	if report.Status == unhealthy {
		return c.String(report.httpStatus(), "unready\n")
	}
	return c.String(report.httpStatus(), "ready\n")
}
