package main

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/slidingsecond"
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
	const fullPace = pushes * 10300 * time.Microsecond
	binary := testenv.BinaryWithoutRace(t)
	for run := 1; ; run++ {
		sim := testenv.StartProgram(t, binary, []string{"sim", "swrve", "--listen", "127.0.0.1:0", "--rate", "100", "--latency", "200ms"})
		stats, sent, span := sharePace(t, binary, sim, pushes)
		sim.Terminate()
		sim.Wait(10 * time.Second)
		t.Logf("run %d: largest sliding second %d of %d, %d answered 429, simulator's lag %.1f ms, %s of %s",
			run, stats.LargestSecond, limit, stats.RateLimited, stats.WorstLagMillis, span, fullPace)
		// The starts are slots on Redis' clock, which no machine holds up.
		require.LessOrEqual(t, largestSecondOfStarts(sent), limit)
		if stats.WorstLagMillis > voidLagMillis {
			if run < 3 {
				continue
			}
			t.Log("this machine is too busy to judge by what arrived")
			return
		}
		require.LessOrEqual(t, stats.LargestSecond, limit)
		require.Zero(t, stats.RateLimited)
		require.Equal(t, pushes, stats.Requests)
		require.Less(t, span, fullPace*115/100, "most of the pace is used")
		for _, push := range sent {
			require.Len(t, push.Attempts, 1, "push %s", push.ID)
		}
		return
	}
}

func largestSecondOfStarts(sent []pushAnswer) int {
	var starts []time.Time
	for _, push := range sent {
		for _, attempt := range push.Attempts {
			starts = append(starts, *attempt.StartedAt)
		}
	}
	slices.SortFunc(starts, time.Time.Compare)
	var second slidingsecond.Count
	for _, start := range starts {
		second.Add(start.Sub(starts[0]))
	}
	return second.Largest()
}

func sharePace(t *testing.T, binary string, sim *testenv.Process, pushes int) (swrvesim.Stats, []pushAnswer, time.Duration) {
	t.Helper()
	w := &world{testenv.World{Pushq: testenv.Pushq{RedisURL: testenv.StartRedis(t).URL(), SwrveURL: sim.URL() + "/push"}}, t}
	start := func(subcommand string) *testenv.Process {
		process := testenv.StartProgram(t, binary, []string{subcommand, "--listen", "127.0.0.1:0"},
			w.Environment("SWRVE_DELAYMILLIS=10.3")...)
		process.WaitReady()
		return process
	}
	processes := []*testenv.Process{start("api"), start("worker"), start("worker")}
	api := processes[0]
	ids := acceptMany(t, api, pushes, "user-")
	sent := waitForAll(t, api, ids, tasks.Sent, 60*time.Second)
	for _, process := range processes {
		process.Terminate()
		require.Zero(t, process.Wait(30*time.Second))
	}

	stats := simulatorStats(t, sim)

	// From the first start to the last one.
	first, last := *sent[0].Attempts[0].StartedAt, *sent[0].Attempts[0].StartedAt
	for _, push := range sent {
		if started := *push.Attempts[0].StartedAt; started.Before(first) {
			first = started
		} else if started.After(last) {
			last = started
		}
	}
	return stats, sent, last.Sub(first)
}

// simulatorStats asks a simulator that is a process of its own what it has seen.
func simulatorStats(t *testing.T, sim *testenv.Process) swrvesim.Stats {
	t.Helper()
	response, err := http.Get(sim.URL() + "/stats")
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	var stats swrvesim.Stats
	require.NoError(t, json.NewDecoder(response.Body).Decode(&stats))
	return stats
}
