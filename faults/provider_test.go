package faults

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/swrvesim"
	"pushq/internal/testenv"
)

// patience is a pause between attempts with which the second or the third of
// three comes after the fault.
func patience(fault time.Duration) string {
	return fmt.Sprintf("PUSH_RETRY_DELAYINSECONDS=%d", int(fault.Seconds()*0.6)+1)
}

// Requests under way are cut off, and connections are refused for a while.
func TestProviderIsDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{Latency: swrvesim.FixedLatency(500 * time.Millisecond)})
	proxy := startToxiproxy(t, strings.TrimSuffix(strings.TrimPrefix(w.SwrveURL, "http://"), "/push"))
	w.SwrveURL = "http://" + proxy.Listen + "/push"
	fault := length(10*time.Second, time.Minute)
	serve := w.start("serve", "SWRVE_DELAYMILLIS=10", patience(fault))
	callers := newCallers(t)
	callers.patient = true
	stop := callers.postEvery(40*time.Millisecond, serve.URL())
	testenv.Eventually(t, 20*time.Second, "pushes to be sent", func() bool { return w.Swrve.Stats().Requests >= 50 })

	proxy.Stop()
	cut := time.Now()
	time.Sleep(fault)
	require.NoError(t, proxy.Start())
	time.Sleep(2 * time.Second) // pushes that find everything in order again
	stop()

	w.waitUntilEnded(callers, serve, 3*fault+time.Minute)
	account := w.reckon(callers, serve)
	require.Equal(t, account.accepted, account.sent)
	require.Zero(t, account.refused+account.unknown)
	require.Less(t, callers.repeated(), account.accepted/10, "what is wrong with the provider is no concern of callers")
	cutOff, retried := 0, 0
	for id, push := range account.pushes {
		if len(push.Attempts) > 1 {
			retried++
		}
		for _, attempt := range push.Attempts {
			if attempt.MaybeDelivered {
				cutOff++
				require.True(t, attempt.StartedAt.Before(cut), "%s: a connection that is refused delivers nothing", id)
			}
		}
	}
	t.Logf("%d requests cut off, %d pushes tried again", cutOff, retried)
	require.Positive(t, cutOff)
	require.LessOrEqual(t, account.duplicates, cutOff, "only what was under way is sent twice")
	require.Greater(t, retried, cutOff)
}

// Answers take four times as long for a while, with windowed pushes waiting all
// the time. The limit of requests under way holds, and immediate pushes, few as
// they are, need not wait for the others.
func TestProviderIsFourTimesSlower(t *testing.T) {
	t.Parallel()
	const (
		concurrency = 24 // of each queue
		latency     = 400 * time.Millisecond
		pace        = 50 // a second
		quick       = 4 * time.Second
		recovery    = 10 * time.Second
	)
	fault := length(10*time.Second, time.Minute)
	w := newWorld(t, swrvesim.Config{Latency: swrvesim.FixedLatency(latency)})
	api := w.start("api")
	callers := newCallers(t)
	callers.patient = true
	herd := pace*int((quick+recovery).Seconds()) + concurrency*int(fault/latency)/4
	for range herd {
		callers.postOne(api.URL(), `"cronExpression":"* * * * * ?"`)
	}
	w.start("worker", fmt.Sprintf("SWRVE_DELAYMILLIS=%d", 1000/pace), fmt.Sprintf("SWRVE_CONCURRENCY=%d", concurrency))
	start := time.Now()
	stop := callers.postEvery(125*time.Millisecond, api.URL())
	time.Sleep(quick)
	slow := time.Now()
	w.Swrve.SetLatency(swrvesim.FixedLatency(4 * latency))
	time.Sleep(fault)
	quickAgain := time.Now()
	w.Swrve.SetLatency(swrvesim.FixedLatency(latency))
	time.Sleep(recovery)
	end := time.Now()
	stop()
	w.waitUntilEnded(callers, api, time.Minute)

	account := w.reckon(callers, api)
	require.Equal(t, account.accepted, account.sent)
	require.Zero(t, account.duplicates)
	stats := w.Swrve.Stats()
	t.Logf("at most %d requests under way, of %d allowed", stats.PeakInFlight, 2*concurrency)
	require.LessOrEqual(t, stats.PeakInFlight, 2*concurrency)
	require.Greater(t, stats.PeakInFlight, concurrency, "it was slow enough to matter")

	before, during, after := w.Arrivals(start.Add(quick/2), slow), w.Arrivals(slow.Add(fault/2), quickAgain), w.Arrivals(end.Add(-quick/2), end)
	perSecond := func(arrivals int, span time.Duration) float64 { return float64(arrivals) / span.Seconds() }
	t.Logf("starts a second: %.1f before, %.1f while slow, %.1f from %s after that",
		perSecond(before, quick/2), perSecond(during, fault/2), perSecond(after, quick/2), recovery-quick/2)
	require.Less(t, perSecond(during, fault/2), 0.9*perSecond(before, quick/2))
	require.Greater(t, perSecond(after, quick/2), 0.6*perSecond(before, quick/2), "the pace is back")

	postings := callers.all()[herd:]
	t.Logf("an immediate push, POST to provider, p95: %s before, %s while slow, %s after that",
		percentile(w.swrveLatencies(postings, start, slow), 95), percentile(w.swrveLatencies(postings, slow, quickAgain), 95),
		percentile(w.swrveLatencies(postings, quickAgain, end), 95))
}

// Everybody is answered 429 with Retry-After for a while. Each such answer holds
// up all workers, slots that they have in hand included.
func TestProviderAsksToWait(t *testing.T) {
	t.Parallel()
	const pause, fault = 3 * time.Second, 10 * time.Second
	w := newWorld(t, swrvesim.Config{})
	api := w.start("api")
	for range 2 {
		w.start("worker", "SWRVE_DELAYMILLIS=300", "SWRVE_CONCURRENCY=8", patience(fault))
	}
	callers := newCallers(t)
	callers.patient = true
	stop := callers.postEvery(500*time.Millisecond, api.URL())
	callers.post(10, api.URL())
	testenv.Eventually(t, 20*time.Second, "pushes to be sent", func() bool { return w.Swrve.Stats().Requests >= 5 })

	require.NoError(t, w.Swrve.SetOutcome("429after3x99-"))
	time.Sleep(fault)
	require.NoError(t, w.Swrve.SetOutcome(""))
	stop()
	w.waitUntilEnded(callers, api, 2*time.Minute)

	account := w.reckon(callers, api)
	require.Equal(t, account.accepted, account.sent)
	require.Zero(t, account.duplicates)
	refusals := make(map[string]int)
	var braked time.Time
	for _, request := range w.Swrve.Ledger() {
		// What started before the answer was read is no fault.
		const answerRead = time.Second
		since := request.ArrivedAt.Sub(braked)
		require.True(t, since < answerRead || since > pause-answerRead, "a request %s after a 429", since)
		if request.Status == 429 {
			refusals[request.User]++
			if since > answerRead {
				braked = request.ArrivedAt
			}
		}
	}
	total := 0
	for _, posting := range callers.accepted() {
		total += refusals[posting.user]
		require.Len(t, account.pushes[posting.id].Attempts, 1+refusals[posting.user], "a 429 counts as an attempt")
	}
	t.Logf("%d requests were answered 429", total)
	require.GreaterOrEqual(t, total, 3, "one after each pause")
}
