package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/swrvesim"
	"pushq/internal/testenv"
	"pushq/tasks"
)

// A posted push and what its caller was told.
type posted struct {
	user     string
	id       string // "" if it was not accepted
	answered time.Time
	status   int
	unknown  bool // the answer says that it may have been accepted
}

// postSteadily posts at a steady rate for some time, each push beside the
// others, and returns what came of all.
func postSteadily(t *testing.T, url string, every, total time.Duration) []posted {
	t.Helper()
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 100}}
	defer client.CloseIdleConnections()
	results := make([]posted, int(total/every))
	var callers sync.WaitGroup
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for number := range results {
		<-ticker.C
		callers.Go(func() {
			result := &results[number]
			result.user = fmt.Sprintf("user%d", number)
			response, err := client.Post(url+"/push", "application/json", strings.NewReader(pushBody(result.user)))
			result.answered = time.Now()
			if err != nil {
				t.Errorf("post: %v", err)
				return
			}
			defer func() { _ = response.Body.Close() }()
			body, err := io.ReadAll(response.Body)
			if err != nil {
				t.Errorf("read the answer: %v", err)
				return
			}
			result.status = response.StatusCode
			result.unknown = strings.Contains(string(body), "outcome-unknown")
			if response.StatusCode == http.StatusAccepted {
				result.id = strings.TrimPrefix(response.Header.Get("Location"), "/push/")
			}
		})
	}
	callers.Wait()
	return results
}

// stateOf is the state of a push, or "" if nobody knows it.
func stateOf(t *testing.T, url, id string) tasks.State {
	t.Helper()
	response, err := http.Get(url + "/push/" + id)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode == http.StatusNotFound {
		return ""
	}
	require.Equal(t, http.StatusOK, response.StatusCode)
	var push pushAnswer
	require.NoError(t, json.NewDecoder(response.Body).Decode(&push))
	return push.Status
}

// The master dies under load. What was accepted is delivered by the time the
// sentinels have chosen another, apart from what Redis itself may lose: writes
// of its last moment that the replica has not got.
func TestSentinelFailoverUnderLoad(t *testing.T) {
	t.Parallel()
	const every, total, before = 5 * time.Millisecond, 12 * time.Second, 4 * time.Second
	const unreplicated = 100 * time.Millisecond
	sentinel := testenv.StartSentinel(t)
	w := newWorldAt(t, swrvesim.Config{Latency: swrvesim.FixedLatency(50 * time.Millisecond)}, sentinel.URL())
	api := w.startReady("api")
	worker := w.startReady("worker", "SWRVE_DELAYMILLIS=2")
	master := sentinel.Master()

	var all []posted
	posting := make(chan struct{})
	url := api.URL()
	go func() {
		defer close(posting)
		all = postSteadily(t, url, every, total)
	}()
	time.Sleep(before) // what is measured is a rate over time
	killed := time.Now()
	master.Stop()
	<-posting
	require.NotSame(t, master, sentinel.Master(), "the sentinels have chosen the replica")

	var accepted, unknown, refused int
	var last time.Time
	for _, push := range all {
		switch {
		case push.status == http.StatusAccepted:
			accepted++
		case push.status == http.StatusServiceUnavailable:
			last = push.answered
			refused++
			if push.unknown {
				unknown++
			}
		default:
			t.Errorf("answered %d", push.status)
		}
	}
	outage := last.Sub(killed)
	require.Greater(t, accepted, int(before/every), "pushes are accepted again without a restart")
	require.Equal(t, http.StatusAccepted, all[len(all)-1].status)
	require.Less(t, outage, 7*time.Second)

	var lost int
	var sent []string
	deadline := time.Now().Add(recoveryTimeout) // a push in the hands of the dead master's client waits for its lease
	for _, push := range all {
		if push.id == "" {
			continue
		}
		var state tasks.State
		testenv.EventuallyNoError(t, max(time.Until(deadline), time.Second), func() error {
			if state = stateOf(t, url, push.id); state != "" && state != tasks.Sent {
				return fmt.Errorf("push %s is %s", push.id, state)
			}
			return nil
		})
		if state == "" {
			lost++
			require.WithinDuration(t, killed, push.answered, unreplicated, "push %s is lost, and Redis had time to replicate it", push.id)
			continue
		}
		sent = append(sent, push.user)
	}
	deliveries, twice := w.deliveries(), 0
	for _, user := range sent {
		require.Positive(t, deliveries[user], "%s is said to be SENT", user)
	}
	for user, count := range deliveries {
		require.LessOrEqual(t, count, 2, user)
		twice += count - 1
	}
	t.Logf("%d posted: %d accepted, %d refused (%d of them with an unknown outcome) over %s; of the accepted %d SENT, %d unknown to the new master; %d delivered twice",
		len(all), accepted, refused, unknown, outage.Round(10*time.Millisecond), len(sent), lost, twice)
	require.LessOrEqual(t, twice, 25, "no more than were being sent when the master died")
	require.Eventually(t, func() bool {
		response, err := http.Get(worker.URL() + "/health/ready")
		if err != nil {
			return false
		}
		_ = response.Body.Close()
		return response.StatusCode == http.StatusOK
	}, 10*time.Second, 20*time.Millisecond)
}
