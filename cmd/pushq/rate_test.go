package main

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/swrvesim"
	"pushq/internal/testenv"
	"pushq/tasks"
)

// Not parallel: the machine must not be the reason why starts bunch.
func TestTwoWorkersShareOnePace(t *testing.T) {
	const pushes, limit = 1000, 100
	// A simulator that was held up for longer than this has counted its own
	// pauses: such a run says nothing, and is repeated.
	const voidLagMillis = 15
	binary := testenv.BinaryWithoutRace(t)
	for run := 1; ; run++ {
		sim := testenv.StartProgram(t, binary, []string{"sim", "swrve", "--listen", "127.0.0.1:0", "--rate", "100", "--latency", "200ms"})
		stats, sent := sharePace(t, binary, sim, pushes)
		sim.Terminate()
		sim.Wait(10 * time.Second)
		t.Logf("run %d: largest sliding second %d of %d, %d answered 429, simulator's lag %.1f ms",
			run, stats.LargestSecond, limit, stats.RateLimited, stats.WorstLagMillis)
		if stats.WorstLagMillis > voidLagMillis && run < 5 {
			continue
		}
		require.LessOrEqual(t, stats.LargestSecond, limit)
		require.Zero(t, stats.RateLimited)
		require.Equal(t, pushes, stats.Requests)
		for _, push := range sent {
			require.Len(t, push.Attempts, 1, "push %s", push.ID)
		}
		return
	}
}

func sharePace(t *testing.T, binary string, sim *testenv.Process, pushes int) (swrvesim.Stats, []pushAnswer) {
	t.Helper()
	w := &world{t: t, redis: testenv.StartRedis(t), push: sim.URL() + "/push"}
	start := func(subcommand string) *testenv.Process {
		process := testenv.StartProgram(t, binary, []string{subcommand, "--listen", "127.0.0.1:0"},
			w.environment([]string{"SWRVE_DELAYMILLIS=10.3"})...)
		waitReady(t, process)
		return process
	}
	api, first, second := start("api"), start("worker"), start("worker")
	ids := acceptMany(t, api, pushes, "user-")
	sent := waitForAll(t, api, ids, tasks.Sent, 60*time.Second)
	for _, process := range []*testenv.Process{api, first, second} {
		process.Terminate()
		require.Zero(t, process.Wait(30*time.Second))
	}

	response, err := http.Get(sim.URL() + "/stats")
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	var stats swrvesim.Stats
	require.NoError(t, json.NewDecoder(response.Body).Decode(&stats))
	return stats, sent
}
