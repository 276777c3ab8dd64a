package faults

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/fcmsim"
	"pushq/internal/testenv"
)

// The token endpoint does not answer when the access token is to be renewed. The token is
// still good, and nobody waits.
func TestTheTokenEndpointHangs(t *testing.T) {
	t.Parallel()
	// A token is renewed after 80 % of its life, and good for 15 % more, or 16 %.
	life, hanging := length(40*time.Second, 250*time.Second), length(2*time.Second, 30*time.Second)
	w := newFCMWorld(t, fcmsim.Config{TokenLife: life})
	serve := w.start("serve")
	callers := newNotifiers(t)
	callers.patient = true
	callers.postOne(serve.URL())
	testenv.Eventually(t, 20*time.Second, "the first token", func() bool { return len(w.Delivered()) == 1 })
	require.NoError(t, w.Firebase.SetToken(fcmsim.TokenHangs, 0))
	stop := callers.postEvery(length(200*time.Millisecond, 50*time.Millisecond), serve.URL())
	testenv.Eventually(t, life, "the renewal to hang", func() bool { return w.Firebase.Stats().TokenRequests == 2 })
	began := time.Now()
	time.Sleep(hanging)
	stop()
	ended := time.Now()
	require.Equal(t, 1, w.Firebase.Stats().TokensIssued)
	require.NoError(t, w.Firebase.SetToken("", time.Hour))

	w.waitUntilEnded(callers, serve, time.Minute)
	w.reckonNotifications(callers, serve).requireSentOnce(t)
	latencies := w.latencies(callers.accepted(), began, ended)
	t.Logf("%d sends while it hung, at most %s from POST to Firebase", len(latencies), latencies[len(latencies)-1])
	require.Greater(t, len(latencies), int(hanging/time.Second)*3)
	const blocked = 4 * time.Second // at least, whom a token is fetched for: until that is given up
	require.Less(t, percentile(latencies, 50), blocked-time.Second)
}

// A hundred pushes are to be sent at once, and there is no access token yet.
func TestTheFirstSendsShareOneToken(t *testing.T) {
	t.Parallel()
	const sends = 100
	w := newFCMWorld(t, fcmsim.Config{Latency: 2 * time.Second})
	slow := startToxiproxy(t, strings.TrimPrefix(w.FirebaseURL, "http://"))
	// So that many wait for the token.
	_, err := slow.Toxics.AddToxicJson(strings.NewReader(`{"type":"latency","stream":"downstream","attributes":{"latency":1000}}`))
	require.NoError(t, err)
	account, err := w.Firebase.ServiceAccount("http://" + slow.Listen)
	require.NoError(t, err)
	api := w.start("api")
	callers := newNotifiers(t)
	callers.patient = true
	callers.post(sends, api.URL())
	w.start("worker", "FCM_SERVICEACCOUNT="+string(account), fmt.Sprintf("FCM_CONCURRENCY=%d", sends), fmt.Sprintf("FCM_BREAKER_FAILURES=%d", sends))
	w.waitUntilEnded(callers, api, time.Minute)
	w.reckonNotifications(callers, api).requireSentOnce(t)
	stats := w.Firebase.Stats()
	require.Equal(t, 1, stats.TokenRequests)
	t.Logf("%d sends at once", stats.PeakInFlight)
	require.Greater(t, stats.PeakInFlight, sends/2, "they did begin at once")
}
