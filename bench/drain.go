package main

import (
	"fmt"
	"time"
)

// drainConcurrency is the number of pushes in work at a time.
const drainConcurrency = 256

func (b *bench) drain() []result {
	return b.drains("drain", b.sizes.drainRounds, b.sizes.drainPushes, 0, 1.15, afternoonTuned, riverTuned, bullmq)
}

func (b *bench) drainLatency() []result {
	return b.drains("drain-latency", b.sizes.rounds, b.sizes.drainPushesSlowRedis, slowRedis, 3, afternoonTuned)
}

func (b *bench) drains(name string, rounds, pushes int, delay time.Duration, times float64, baselines ...contender) []result {
	found := b.sideBySide(name, rounds, func(t *stage, c contender) measurement {
		return measureDrain(t, c, pushes, delay)
	}, append([]contender{pushq}, baselines...)...)
	text := "no rate limit, full records"
	if delay > 0 {
		text += fmt.Sprintf(", Redis %d ms away", delay.Milliseconds())
	}
	return b.judgeAll(found, promise{
		text:  fmt.Sprintf("%s: ≥ %g x asynq.Server with the same request", text, times),
		value: "pushes", unit: "/s", rule: atLeastTimes(times),
	}, baselines...)
}

// measureDrain is the speed at which a backlog arrives at a provider that
// answers at once, without the first tenth, when connections are cold.
func measureDrain(t *stage, c contender, pushes int, delay time.Duration) measurement {
	w := newWorld(t, provider{latency: "0"}, delay)
	s := settings{concurrency: drainConcurrency}
	api := c.startReady(t, w, "api", s)
	post(t, api, loadOrder{Pushes: pushes, Prefix: "drain-"})
	api.Kill()
	worker := c.start(t, w, "worker", s)
	w.swrve.await(t, pushes, 10*time.Minute)
	perPush := processorTime(t, worker.Pid()) / time.Duration(pushes)
	requests := w.swrve.requests(t)
	if len(requests) != pushes {
		t.Fatalf("%d requests for %d pushes", len(requests), pushes)
	}
	first := pushes / 10
	micros := requests[pushes-1].MonotonicMicros - requests[first].MonotonicMicros
	return measurement{
		values: map[string]float64{"pushes": float64(pushes-1-first) / (float64(micros) / 1e6)},
		note:   fmt.Sprintf("worker's processor time a push: %d µs", perPush.Microseconds()),
	}
}
