package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"pushq/internal/testenv"
)

func (b *bench) idle() []result {
	baselines := []contender{afternoon, afternoonTuned, river, bullmq}
	found := b.sideBySide("idle", b.sizes.longRounds, measureIdle, append([]contender{pushq}, baselines...)...)
	return slices.Concat(
		b.judgeAll(found, promise{text: "idle system, POST to provider: p95 ≤ 25 ms", value: "p95", unit: "ms", rule: atMost(25)}, baselines...),
		b.judgeAll(found, promise{text: "idle system, POST to provider: p50", value: "p50", unit: "ms"}, baselines...),
		b.judgeAll(found, promise{text: "idle worker process: ≤ 2 % of a core", value: "processor", unit: "%", rule: atMost(2)}, baselines...),
	)
}

// measureIdle first leaves the worker alone, then posts a push now and then.
func measureIdle(t *stage, c contender) measurement {
	sizes := t.bench.sizes
	w := newWorld(t, provider{latency: "0"}, 0)
	s := settings{concurrency: inWork, perSecond: providerLimit}
	api := c.startReady(t, w, "api", s)
	worker := c.startReady(t, w, "worker", s)
	postOne(t, api, "warm-up")
	w.swrve.await(t, 1, time.Minute)

	before, began := processorTime(t, worker.Pid()), time.Now()
	time.Sleep(sizes.idleQuiet)
	processor := 100 * float64(processorTime(t, worker.Pid())-before) / float64(time.Since(began))

	millis := latencies(t, w, api, sizes.idlePushes, sizes.idleGap)
	return measurement{values: map[string]float64{"p50": percentile(millis, 50), "p95": percentile(millis, 95), "processor": processor}}
}

// latencies posts immediate pushes one at a time, with gaps of random length,
// and returns the milliseconds from each POST to its arrival at the provider.
func latencies(t *stage, w *world, api *testenv.Process, pushes int, gap time.Duration) []float64 {
	posted := make(map[string]time.Time)
	for number := range pushes {
		time.Sleep(gap/2 + rand.N(gap))
		user := fmt.Sprintf("single-%d", number)
		posted[user] = time.Now()
		postOne(t, api, user)
	}
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(500 * time.Millisecond) {
		var millis []float64
		for _, request := range w.swrve.requests(t) {
			if at, ours := posted[request.User]; ours {
				millis = append(millis, float64(request.ArrivedAt.Sub(at).Microseconds())/1000)
			}
		}
		if len(millis) == pushes {
			return millis
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d single pushes have arrived", len(millis), pushes)
		}
	}
}

func postOne(t *stage, api *testenv.Process, user string) {
	postWindowed(t, api, user, "")
}

func postWindowed(t *stage, api *testenv.Process, user, cron string) {
	response, err := http.Post(api.URL()+"/push", "application/json", bytes.NewReader(appendPush(nil, user, cron)))
	t.check(err)
	_ = response.Body.Close()
	if response.StatusCode != http.StatusAccepted {
		t.Fatalf("POST /push: %d", response.StatusCode)
	}
}

// processorTime is what a process has used of processors so far; see proc(5).
func processorTime(t *stage, pid int) time.Duration {
	const perSecond = 100 // clock ticks, the same on every Linux that Go runs on
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	t.check(err)
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	var ticks int
	for _, field := range fields[11:13] { // utime, stime
		count, err := strconv.Atoi(field)
		t.check(err)
		ticks += count
	}
	return time.Duration(ticks) * time.Second / perSecond
}
