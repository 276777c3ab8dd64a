package main

import "slices"

// steadyLoad is what every contender can take, in requests a second.
const steadyLoad = 1000

func (b *bench) accept() []result {
	// The first one is judged.
	throughput := []contender{afternoonTuned, afternoon, river, bullmq}
	latency := []contender{afternoon, afternoonTuned, river, bullmq}
	found := b.sideBySide("accept", b.sizes.rounds, measureAccept, append([]contender{pushq}, latency...)...)
	return slices.Concat(
		b.judgeAll(found, promise{text: "POST /push, 64 callers: ≥ 1.2 x requests of echo + asynq.Client", value: "pushes", unit: "/s", rule: atLeastTimes(1.2)}, throughput...),
		b.judgeAll(found, promise{text: "POST /push, 64 callers: p99 no worse", value: "p99", unit: "ms", rule: atMostTimes(1)}, latency...),
		b.judgeAll(found, promise{text: "POST /push at 1,000 a second: p99 ≤ 25 ms", value: "steady p99", unit: "ms", rule: atMost(25)}, latency...),
	)
}

// measureAccept posts one push a request, as fast as it can and then at a
// steady rate.
func measureAccept(t *stage, c contender) measurement {
	w := newWorld(t, provider{latency: "0"}, 0)
	api := c.startReady(t, w, "api", settings{concurrency: inWork})
	order := loadOrder{Warmup: t.bench.sizes.acceptWarmup, Duration: t.bench.sizes.acceptDuration, Prefix: "accept-"}
	full := post(t, api, order)
	order.Warmup, order.PerSecond, order.Prefix = 0, steadyLoad, "steady-"
	steady := post(t, api, order)
	return measurement{values: map[string]float64{"pushes": full.PerSecond, "p99": full.P99, "steady p99": steady.P99}}
}
