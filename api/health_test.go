package api

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/breaker"
	"pushq/internal/testenv"
)

func TestHealthReport(t *testing.T) {
	t.Parallel()
	s := prepareService(t)
	s.options.Checks = append(s.options.Checks, Check{Name: "clock", Run: func(context.Context) error { return nil }})
	s.start()
	got := s.get("/health")
	require.Equal(t, http.StatusOK, got.status)
	require.Equal(t, "application/json", got.header.Get("Content-Type"))
	at, _ := takeTime(t, got.body, "timestamp")
	require.WithinDuration(t, time.Now(), at, time.Minute)
	var report map[string]any
	require.NoError(t, json.Unmarshal([]byte(got.body), &report))
	delete(report, "timestamp")
	checks := report["checks"].(map[string]any)
	for _, check := range checks {
		require.IsType(t, 0.0, check.(map[string]any)["response_time_ms"])
		delete(check.(map[string]any), "response_time_ms")
	}
	healthy := map[string]any{"status": "healthy"}
	require.Equal(t, map[string]any{"status": "healthy", "checks": map[string]any{"redis": healthy, "clock": healthy}}, report)
	require.Equal(t, http.StatusOK, s.get("/health/ready").status)
}

func TestPausedQueuesAreShownAndNothingIsWrongWithThem(t *testing.T) {
	t.Parallel()
	s := prepareService(t)
	s.options.Checks = append(s.options.Checks, Check{Name: "queues", Run: func(context.Context) error {
		return &Paused{Queues: []string{"swrve"}}
	}})
	s.start()
	got := s.get("/health")
	require.Equal(t, http.StatusOK, got.status)
	var report healthReport
	require.NoError(t, json.Unmarshal([]byte(got.body), &report))
	require.Equal(t, "healthy", report.Status)
	require.Equal(t, "paused", report.Checks["queues"].Status)
	require.Equal(t, []string{"swrve"}, report.Checks["queues"].Paused)
	require.Empty(t, report.Checks["queues"].Error)
	require.Equal(t, http.StatusOK, s.get("/health/ready").status)
}

func TestOneUnhealthyCheck(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]func(context.Context) error{
		"failed":   func(context.Context) error { return errors.New("the clock is wrong") },
		"panicked": func(context.Context) error { panic("the clock is wrong") },
		"hangs":    func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := prepareService(t)
			s.options.Checks = append(s.options.Checks, Check{Name: "clock", Run: run})
			s.start()
			started := time.Now()
			got := s.get("/health")
			require.Equal(t, http.StatusServiceUnavailable, got.status)
			var report healthReport
			require.NoError(t, json.Unmarshal([]byte(got.body), &report))
			require.Equal(t, "unhealthy", report.Status)
			require.Equal(t, "healthy", report.Checks["redis"].Status)
			require.Equal(t, "unhealthy", report.Checks["clock"].Status)
			require.NotEmpty(t, report.Checks["clock"].Error)
			ready := s.get("/health/ready")
			require.Equal(t, http.StatusServiceUnavailable, ready.status)
			require.Equal(t, "unready\n", ready.body)
			require.Equal(t, http.StatusOK, s.get("/health/live").status)
			require.Less(t, time.Since(started), time.Minute)
		})
	}
}

func TestADegradedCheckKeepsTheProcessReady(t *testing.T) {
	t.Parallel()
	for _, broken := range []bool{false, true} {
		s := prepareService(t)
		s.options.Checks = append(s.options.Checks,
			Check{Name: "admission", Degrades: true, Run: func(context.Context) error { return errors.New("redis is full") }},
			Check{Name: "clock", Run: func(context.Context) error {
				if broken {
					return errors.New("the clock is wrong")
				}
				return nil
			}})
		s.start()
		want := struct {
			httpStatus    int
			status, ready string
		}{http.StatusOK, "degraded", "ready\n"}
		if broken {
			want.httpStatus, want.status, want.ready = http.StatusServiceUnavailable, "unhealthy", "unready\n"
		}
		got, ready := s.get("/health"), s.get("/health/ready")
		var report healthReport
		require.NoError(t, json.Unmarshal([]byte(got.body), &report))
		require.Equal(t, checkReport{Status: "degraded", Error: "redis is full", ResponseTimeMS: report.Checks["admission"].ResponseTimeMS}, report.Checks["admission"])
		require.Equal(t, want.status, report.Status)
		require.Equal(t, []int{want.httpStatus, want.httpStatus}, []int{got.status, ready.status})
		require.Equal(t, want.ready, ready.body)
	}
}

func TestNotReadyWhileStopping(t *testing.T) {
	t.Parallel()
	s := startService(t)
	require.Equal(t, http.StatusOK, s.get("/health/ready").status)
	s.server.health.stop()
	require.Equal(t, http.StatusServiceUnavailable, s.get("/health/ready").status)
	require.Equal(t, http.StatusServiceUnavailable, s.get("/health").status)
	require.Equal(t, http.StatusOK, s.get("/health/live").status)
}

func TestProcessThatOnlyWorksServesHealthAlone(t *testing.T) {
	t.Parallel()
	s := prepareService(t)
	s.options.Intake, s.options.Reader = nil, nil
	s.start()
	require.Equal(t, http.StatusOK, s.get("/health").status)
	for _, operation := range description.Operations() {
		if strings.Contains(operation, " /push") {
			require.Equal(t, http.StatusNotFound, s.sendOperation(operation).status, operation)
		}
	}
}

func TestACircuitBreakerThatIsNotClosedDegrades(t *testing.T) {
	t.Parallel()
	const refuses = `,"error":"it refuses pushq itself: mend the configuration"`
	for found, want := range map[breaker.Status]struct{ status, more string }{
		{State: breaker.Closed}: {"healthy", ""}, {State: breaker.Open}: {"degraded", ""}, {State: breaker.HalfOpen}: {"degraded", ""},
		{State: breaker.Open, Refused: true}: {"degraded", refuses}, {State: breaker.HalfOpen, Refused: true}: {"degraded", refuses},
	} {
		s := prepareService(t)
		s.options.Checks = append(s.options.Checks, Check{Name: "fcm", Degrades: true, Run: func(context.Context) error {
			return &Circuit{found}
		}})
		s.start()
		got := s.get("/health")
		require.Equal(t, http.StatusOK, got.status)
		var report struct {
			Status string
			Checks map[string]json.RawMessage
		}
		require.NoError(t, json.Unmarshal([]byte(got.body), &report))
		require.Equal(t, want.status, report.Status)
		require.JSONEq(t, `{"status":"`+want.status+`","circuit_breaker":"`+string(found.State)+`"`+want.more+`}`, string(report.Checks["fcm"]))
		require.Equal(t, http.StatusOK, s.get("/health/ready").status)
	}
}

func TestAFindingUnderTwoNamesIsFoundOnce(t *testing.T) {
	t.Parallel()
	s := prepareService(t)
	runs := 0
	s.options.Checks = []Check{{Name: "redis", Also: "cache_service", Run: func(context.Context) error {
		runs++
		return errors.New("redis does not answer")
	}}}
	s.start()
	var report healthReport
	require.NoError(t, json.Unmarshal([]byte(s.get("/health").body), &report))
	require.Equal(t, 1, runs)
	require.Equal(t, "redis does not answer", report.Checks["redis"].Error)
	require.Equal(t, report.Checks["redis"], report.Checks["cache_service"])
	require.Len(t, report.Checks, 2)
}

// Probes have a second or less.
func TestReadyDoesNotWaitForWhatOnlyDegrades(t *testing.T) {
	t.Parallel()
	s := prepareService(t)
	s.options.Checks = append(s.options.Checks, Check{Name: "database", Degrades: true, Run: func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}})
	s.start()
	took := testenv.Fastest(10, checkTimeout, func() { require.Equal(t, http.StatusOK, s.get("/health/ready").status) })
	require.Less(t, took, checkTimeout)
	started := time.Now()
	got := s.get("/health")
	require.Equal(t, http.StatusOK, got.status)
	require.Contains(t, got.body, `"status":"degraded"`)
	require.Less(t, time.Since(started), time.Minute)
}

// A balancer may have a request on its way to an idle connection, so that one is closed
// only with the answer.
func TestLeavingClosesConnectionsWithTheirNextAnswer(t *testing.T) {
	t.Parallel()
	s := startService(t)
	require.False(t, s.ask(t, "/health/live").close)
	s.server.Leave()
	for _, path := range []string{"/health/ready", "/push/01JB0000000000000000000000", "/nothing"} {
		got := s.ask(t, path)
		require.True(t, got.close, path)
		require.Equal(t, path == "/health/ready", got.reused, "the first request of all finds the connection that was idle")
	}
	s.accept(push())
}

type connectionUse struct {
	reused, close bool
}

func (s *testService) ask(t *testing.T, path string) (use connectionUse) {
	t.Helper()
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { use.reused = info.Reused }})
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.address+path, nil)
	require.NoError(t, err)
	response, err := s.http.Do(request)
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	use.close = response.Close
	return use
}
