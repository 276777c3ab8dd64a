package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/load"
	"pushq/internal/swrvesim"
	"pushq/internal/testenv"
	"pushq/tasks"
)

func loadReport(t *testing.T, output string) load.Report {
	t.Helper()
	var report load.Report
	require.NoError(t, json.Unmarshal([]byte(output), &report), output)
	return report
}

func TestLoadAgreesWithTheProvidersLedger(t *testing.T) {
	t.Parallel()
	var w *world
	var report load.Report
	for range 5 { // a busy machine may keep Redis from taking some
		// Of every burst above the limit some are answered 429 and come again.
		w = newWorld(t, swrvesim.Config{Rate: 50, Latency: swrvesim.FixedLatency(20 * time.Millisecond)})
		serve := w.startReady("serve", "SWRVE_DELAYMILLIS=14", "PUSH_RETRY_MAXATTEMPTS=20")
		output, err := execute("load", "--server", serve.URL(), "--threads", "5", "--pushes", "200", "--message", "load", "--json")
		require.NoError(t, err)
		if report = loadReport(t, output); report.Unavailable == 0 {
			break
		}
	}
	require.Equal(t, 200, report.Accepted)
	require.Zero(t, report.Unavailable+report.Failed+report.NotEnded)
	require.Equal(t, 200, report.Receiving.Count)
	require.Positive(t, report.Receiving.Min)
	require.Equal(t, map[tasks.State]int{tasks.Sent: 200}, report.States)

	stats := w.Swrve.Stats()
	require.NotZero(t, stats.RateLimited, "the limit is met")
	require.Equal(t, stats.RateLimited, report.RateLimited)
	require.Equal(t, stats.Requests, report.Provider.Count)
	require.Equal(t, 200+stats.RateLimited, report.Provider.Count)
	require.GreaterOrEqual(t, report.Provider.Max, 20.0)
	ledger := w.Swrve.Ledger()
	span := ledger[len(ledger)-1].ArrivedAt.Sub(ledger[0].ArrivedAt)
	require.InEpsilon(t, float64(len(ledger)-1)/span.Seconds(), report.StartsPerSecond, 0.3)
	require.InDelta(t, stats.LargestSecond, report.LargestSecond, 50, "starts and arrivals are not the same instants")

	users := make(map[string]bool)
	for _, request := range ledger {
		require.Equal(t, "load", request.Message)
		users[request.User] = true
	}
	require.Len(t, users, 200, "every push has a user of its own")
}

func TestLoadTellsWhatHasNotEnded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	serve := w.startReady("serve", "PUSH_RETRY_DELAYINSECONDS=600")
	output, err := execute("load", "--server", serve.URL(), "--pushes", "3", "--push-key", "503-{n}", "--wait", "15s", "--json")
	require.ErrorIs(t, err, load.ErrNotEnded)
	report := loadReport(t, output)
	require.Equal(t, map[tasks.State]int{tasks.Retry: 3}, report.States)
	require.Equal(t, 3, report.NotEnded)
	require.Equal(t, 3, report.Provider.Count)

	output, err = execute("load", "--server", serve.URL(), "--pushes", "3", "--wait", "0")
	require.NoError(t, err)
	require.Contains(t, output, "3 of 3 accepted")
	require.NotContains(t, output, "not ended")
}

func TestInterruptedLoadPrintsWhatItHasMeasured(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	serve := w.startReady("serve")
	process := testenv.StartPushq(t, []string{"load", "--server", serve.URL(), "--threads", "1", "--pushes", "1000000"})
	testenv.Eventually(t, 20*time.Second, "pushes to be sent", func() bool { return len(w.Swrve.Ledger()) > 20 })
	process.Interrupt()
	require.Equal(t, 1, process.Wait(20*time.Second))
	printed := strings.Join(process.Stdout(), "\n")
	require.Regexp(t, `Mean +\| +\d+\.\d \| +- `, printed)
	require.Regexp(t, `1 threads: \d+ of 1000000 accepted, 0 answered 503, 0 failed`, printed)
	require.Contains(t, strings.Join(process.Stderr(), "\n"), "interrupted")
}

func TestLoadGivesUpWhereNothingWouldBeAccepted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	api := w.startReady("api", `HTTP_APIKEYS={"tests":"key-of-the-tests-0123"}`)
	output, err := execute("load", "--server", api.URL(), "--threads", "2", "--pushes", "1000", "--json")
	require.ErrorContains(t, err, "401")
	require.LessOrEqual(t, loadReport(t, output).Failed, 2)

	// Redis gone: each is answered 503, and the run goes on.
	w.Redis.Stop()
	output, err = execute("load", "--server", api.URL(), "--key", "key-of-the-tests-0123", "--pushes", "5", "--json")
	require.ErrorContains(t, err, "nothing was accepted")
	require.Equal(t, 5, loadReport(t, output).Unavailable)
	require.Contains(t, loadReport(t, output).FirstFailure, http.StatusText(http.StatusServiceUnavailable))
}
