package main

func (b *bench) accept() []result {
	found := b.sideBySide("accept", b.sizes.rounds, measureAccept, pushq, afternoon, afternoonTuned, river, bullmq)
	more := promise{text: "POST /push, 64 callers: ≥ 1.2 x requests of echo + asynq.Client", value: "requests", unit: "/s", rule: atLeastTimes(1.2)}
	faster := promise{text: "POST /push, 64 callers: p99 no worse", value: "p99", unit: "ms", rule: atMostTimes(1)}
	lines := []result{b.judge(found, more, afternoon), b.judge(found, faster, afternoon)}
	more.text, more.rule, faster.text, faster.rule = "POST /push, 64 callers: requests", nil, "POST /push, 64 callers: p99", nil
	for _, other := range []contender{afternoonTuned, river, bullmq} {
		lines = append(lines, b.judge(found, more, other), b.judge(found, faster, other))
	}
	return lines
}

// measureAccept posts one push a request, as fast as it can.
func measureAccept(t *stage, c contender) measurement {
	w := newWorld(t, provider{latency: "0"}, 0)
	api := c.startReady(t, w, "api", settings{concurrency: inWork})
	report := post(t, api, loadOrder{Warmup: t.bench.sizes.acceptWarmup, Duration: t.bench.sizes.acceptDuration, Prefix: "accept-"})
	return measurement{values: map[string]float64{"requests": report.PerSecond, "pushes": report.PerSecond, "p99": report.P99}}
}
