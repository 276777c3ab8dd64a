package main

import (
	"fmt"
	"time"

	"pushq/internal/swrvesim"
	"pushq/internal/testenv"
)

const (
	// providerLimit is what the provider allows in any sliding second.
	providerLimit = 300
	// voidLagMillis: a simulator that was held up for longer has counted its own
	// pauses. Such a run of pushq says nothing and is repeated. A baseline that keeps
	// two processors so busy with waiting that the simulator is held up would do so
	// each time: it is measured once, and the table says for how long.
	voidLagMillis = 5
	// inWork is more than the requests under way at full pace: 300 a second of
	// 1.63 s each.
	inWork = 600
)

func (b *bench) rate() []result {
	return b.rates("rate", 0, afternoonTuned, bullmq)
}

func (b *bench) rateLatency() []result {
	return b.rates("rate-latency", slowRedis, afternoonTuned)
}

// slowRedis is what is added to the round trip to Redis.
const slowRedis = 5 * time.Millisecond

// rates measures how much of the limit a backlog uses, and what the provider
// refuses.
func (b *bench) rates(name string, delay time.Duration, baselines ...contender) []result {
	var lines []result
	for _, workers := range b.sizes.rateWorkers {
		text := fmt.Sprintf("limit of %d/s, %s: ≥ 97 %% used, no 429", providerLimit, processes(workers))
		if delay > 0 {
			text += fmt.Sprintf(", Redis %d ms away", delay.Milliseconds())
		}
		found := b.sideBySide(fmt.Sprintf("%s, %s", name, processes(workers)), b.sizes.longRounds, func(t *stage, c contender) measurement {
			return measureRate(t, c, workers, delay)
		}, append([]contender{pushq}, baselines...)...)
		for _, measured := range found.measured {
			noteWorst(measured)
		}
		lines = append(lines, b.judgeAll(found, promise{text: text, value: "used", unit: "%", rule: atLeast(97), never: "refused"}, baselines...)...)
	}
	return lines
}

// noteWorst writes beside each round what came of all of them.
func noteWorst(measured []measurement) {
	var largest, refused, void, lag float64
	for _, m := range measured {
		largest = max(largest, m.values["largest second"])
		refused += m.values["refused"]
		void += m.values["void"]
		lag = max(lag, m.values["lag"])
	}
	for round := range measured {
		measured[round].note = fmt.Sprintf("at most %g in a second, %g × 429, %g void, provider held up ≤ %.1f ms", largest, refused, void, lag)
	}
}

func processes(workers int) string {
	if workers == 1 {
		return "1 worker"
	}
	return fmt.Sprintf("%d workers", workers)
}

func measureRate(t *stage, c contender, workers int, delay time.Duration) measurement {
	for void := 0; ; void++ {
		var m measurement
		t.check(t.bench.onStage(func(t *stage) { m = measureRateOnce(t, c, workers, delay) }))
		lag := m.values["lag"]
		if lag <= voidLagMillis || c.name != pushq.name || !t.bench.judges {
			m.values["void"] = float64(void)
			return m
		}
		if void == t.bench.sizes.rateRepeats {
			t.Fatalf("the machine is too busy: the simulator was held up for %.1f ms in the last of %d runs", lag, void+1)
		}
		t.bench.progress("void, repeated: the simulator was held up for %.1f ms", lag)
	}
}

func measureRateOnce(t *stage, c contender, workers int, delay time.Duration) measurement {
	sizes := t.bench.sizes
	w := newWorld(t, provider{latency: "original", rate: providerLimit}, delay)
	s := settings{concurrency: inWork, perSecond: providerLimit}
	api := c.startReady(t, w, "api", s)
	// Twice the limit's worth, so that even a contender that exceeds it has a
	// backlog to the end.
	backlog := int((sizes.rateWarmup + sizes.rateDuration).Seconds() * 2 * providerLimit)
	post(t, api, loadOrder{Pushes: backlog, Prefix: "rate-"})

	var started []*testenv.Process
	for range workers {
		started = append(started, c.start(t, w, "worker", s))
	}
	w.swrve.await(t, 1, time.Minute)
	time.Sleep(sizes.rateWarmup + sizes.rateDuration)
	stats, requests := w.swrve.stats(t), w.swrve.requests(t)
	for _, process := range started {
		process.Kill()
	}
	perSecond := float64(steady(requests, sizes.rateWarmup, sizes.rateDuration)) / sizes.rateDuration.Seconds()
	return measurement{
		values: map[string]float64{
			"used":           100 * perSecond / providerLimit,
			"refused":        float64(stats.RateLimited),
			"largest second": float64(stats.LargestSecond),
			"lag":            stats.WorstLagMillis,
		},
	}
}

// steady counts the requests of a time that begins some time after the first
// one. Those that the provider refused are not counted.
func steady(requests []swrvesim.Request, after, duration time.Duration) int {
	delivered := 0
	from := requests[0].MonotonicMicros + after.Microseconds()
	for _, request := range requests {
		if request.MonotonicMicros >= from && request.MonotonicMicros < from+duration.Microseconds() && request.Delivered {
			delivered++
		}
	}
	return delivered
}
