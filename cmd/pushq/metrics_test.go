package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"pushq/internal/swrvesim"
	"pushq/internal/testenv"
	"pushq/tasks"
)

func scrape(t *testing.T, process *testenv.Process) testenv.Scrape {
	t.Helper()
	return testenv.ScrapeURL(t, process.URL()+"/metrics")
}

func TestMetricsOfScriptedOutcomes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	serve := w.startReady("serve", "SWRVE_TIMEOUTMILLIS=4000", "SWRVE_AVERAGEPROCESSINGMILLIS=1000", "SWRVE_CONCURRENCY=50")
	ends := make(map[tasks.State][]string)
	for _, scripted := range []struct {
		user  string
		state tasks.State
	}{
		{"ann", tasks.Sent}, {"bob", tasks.Sent}, {"500x2-", tasks.Sent}, {"429x1-", tasks.Sent}, {"resetx1-", tasks.Sent},
		{"503-", tasks.GivenUp}, {"hang-", tasks.GivenUp}, {"400-", tasks.Failed}, {"413-", tasks.Failed},
	} {
		ends[scripted.state] = append(ends[scripted.state], accept(t, serve, scripted.user))
	}
	ends[tasks.Sent] = append(ends[tasks.Sent], accept(t, serve, "now", `"cronExpression":"* * * * * ?"`))
	for range 3 { // repeated, it is one push
		status, _, answer := post(t, serve, pushBody("keyed"), "Idempotency-Key", "key")
		require.Equal(t, http.StatusAccepted, status, answer)
	}
	_, header, _ := post(t, serve, strings.Replace(pushBody("nobody"), "Hello", "Unmapped", 1))
	ends[tasks.Failed] = append(ends[tasks.Failed], strings.TrimPrefix(header.Get("Location"), "/push/"))

	later := accept(t, serve, "later", fmt.Sprintf(`"cronExpression":"* * %d * * ?"`, time.Now().UTC().Add(12*time.Hour).Hour()))
	request, err := http.NewRequest(http.MethodDelete, serve.URL()+"/push/"+later, nil)
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusNoContent, response.StatusCode)

	for state, ids := range ends {
		waitForAll(t, serve, ids, state, 60*time.Second)
	}
	var got testenv.Scrape
	testenv.Eventually(t, 20*time.Second, "all pushes to be counted and let go", func() bool {
		got = scrape(t, serve)
		counted := 0.0
		for _, count := range got.Family("pushq_pushes_finished_total") {
			counted += count
		}
		return counted == 13 && got.Series[`pushq_queue_tasks{queue="swrve",state="active"}`] == 0
	})
	for name, want := range map[string]map[string]float64{
		"pushq_received_total":          {`kind="immediate"`: 11, `kind="scheduled"`: 2},
		"pushq_receiving_seconds_count": {"": 15},
		"pushq_replayed_total":          {"": 2},
		"pushq_unmapped_total":          {"": 1},
		"pushq_pushes_finished_total": {
			`channel="swrve",state="SENT"`: 7, `channel="swrve",state="FAILED"`: 3,
			`channel="swrve",state="GIVEN_UP"`: 2, `channel="swrve",state="CANCELLED"`: 1,
		},
		"pushq_attempts_total": {
			`channel="swrve",outcome="ok"`: 7, `channel="swrve",outcome="retry"`: 8,
			`channel="swrve",outcome="fail"`: 3, `channel="swrve",outcome="give_up"`: 2,
		},
		"pushq_attempt_errors_total": {
			`channel="swrve",final="false",type="SWRVE"`: 5, `channel="swrve",final="true",type="SWRVE"`: 3,
			`channel="swrve",final="false",type="OTHER"`: 3, `channel="swrve",final="true",type="OTHER"`: 1,
			`channel="swrve",final="true",type="MESSAGE_PROTOTYPE_KEY"`: 1,
		},
		"pushq_attempts_unknown_total": {`channel="swrve"`: 4},
		"pushq_provider_responses_total": {
			`channel="swrve",code="2xx"`: 7, `channel="swrve",code="400"`: 1, `channel="swrve",code="413"`: 1,
			`channel="swrve",code="429"`: 1, `channel="swrve",code="500"`: 2, `channel="swrve",code="503"`: 3,
			`channel="swrve",code="none"`: 4,
		},
		"pushq_sending_seconds_count": {
			`channel="swrve",outcome="ok"`: 7, `channel="swrve",outcome="retry"`: 8,
			`channel="swrve",outcome="fail"`: 2, `channel="swrve",outcome="give_up"`: 2,
		},
		"pushq_sending_in_flight":         {},
		"pushq_store_errors_total":        {},
		"pushq_scrape_errors_total":       {},
		"pushq_ratelimit_throttles_total": {`channel="swrve"`: 1},
		"pushq_active_without_lease":      {},
		"pushq_workers_running":           {"": 1},
	} {
		require.Equal(t, want, got.Family(name), name)
	}
	require.Equal(t, 5.0, got.Series[`pushq_queue_tasks{queue="swrve",state="archived"}`])
	require.Equal(t, 6.0, got.Series[`pushq_queue_tasks{queue="swrve",state="completed"}`])
	attempts := 0
	for _, line := range serve.Stderr() {
		if strings.Contains(line, "msg=attempt ") {
			attempts++
		}
		require.NotContains(t, line, "Hello client!")
	}
	require.Equal(t, 20, attempts, "a line each")
}

// A queue whose statistics are broken keeps no other from being shown.
func TestMetricsOfTheQueuesThatCanBeRead(t *testing.T) {
	t.Parallel()
	w := newFCMWorld(t)
	api := w.startReady("api", w.settings...)
	require.NoError(t, w.Redis.Client(t).Set(t.Context(), "asynq:{swrve}:scheduled", "no sorted set", 0).Err())
	scrape(t, api)
	got := scrape(t, api)
	require.GreaterOrEqual(t, got.Series[`pushq_scrape_errors_total{part="queues"}`], 1.0, "of the first one")
	for queue, shown := range map[string]bool{"swrve": false, "swrve-window": true, "fcm": true, "fcm-window": true} {
		_, found := got.Series[`pushq_queue_tasks{queue="`+queue+`",state="pending"}`]
		require.Equal(t, shown, found, queue)
	}
}

func TestMetricsWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	for name, outage := range map[string]struct{ begin, end func(*testenv.Redis) }{
		"stopped": {(*testenv.Redis).Stop, (*testenv.Redis).Start},
		"frozen":  {(*testenv.Redis).Freeze, (*testenv.Redis).Thaw},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, swrvesim.Config{})
			serve := w.startReady("serve")
			require.Contains(t, scrape(t, serve).Text, "pushq_queue_tasks")
			outage.begin(w.Redis)
			testenv.Eventually(t, 20*time.Second, "the workers to notice", func() bool {
				started := time.Now()
				got := scrape(t, serve)
				require.Less(t, time.Since(started), time.Minute, "bounded")
				for _, asked := range []string{"pushq_queue_tasks", "pushq_redis_memory_bytes", "pushq_ratelimit_slots_per_second"} {
					require.NotContains(t, got.Text, asked)
				}
				require.Contains(t, got.Text, "pushq_received_total")
				return got.Series[`pushq_scrape_errors_total{part="queues"}`] >= 1 && got.Series[`pushq_store_errors_total{stage="queue"}`] >= 1
			})
			outage.end(w.Redis)
			testenv.Eventually(t, 20*time.Second, "the queues to be counted again", func() bool {
				return strings.Contains(scrape(t, serve).Text, "pushq_queue_tasks")
			})
		})
	}
}

func TestAScrapeWithAMillionQueued(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	api := w.startReady("api")
	client := w.Redis.Client(t)
	// Without their hashes, which asynq's own statistics cannot bear.
	fill := redis.NewScript(`for i = ARGV[1], ARGV[2] do redis.call('LPUSH', KEYS[1], 'push-' .. i) end return 1`)
	for part := range 10 {
		require.NoError(t, fill.Run(t.Context(), client, []string{"asynq:{swrve}:pending"}, part*100_000+1, (part+1)*100_000).Err())
	}
	took := testenv.Fastest(50, 100*time.Millisecond, func() {
		got := scrape(t, api)
		require.Equal(t, 1_000_000.0, got.Series[`pushq_queue_tasks{queue="swrve",state="pending"}`])
		require.Empty(t, got.Family("pushq_scrape_errors_total"))
	})
	require.Less(t, took, 100*time.Millisecond, "a scrape with 1,000,000 queued pushes")
}
