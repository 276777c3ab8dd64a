package main

func (b *bench) memory() []result {
	found := b.sideBySide("memory", b.sizes.rounds, measureMemory, pushq, afternoon)
	return []result{b.judge(found, promise{
		text: "Redis memory for a queued push: ≤ 1.15 x bare asynq", value: "bytes", unit: "B", rule: atMostTimes(1.15),
	}, afternoon)}
}

func measureMemory(t *stage, c contender) measurement {
	pushes := t.bench.sizes.memoryPushes
	w := newWorld(t, provider{latency: "0"}, 0)
	api := c.startReady(t, w, "api", settings{concurrency: inWork})
	// The first ones make connections, scripts and keys that stay.
	post(t, api, loadOrder{Pushes: callers, Prefix: "first-"})
	before := w.usedMemory(t)
	post(t, api, loadOrder{Pushes: pushes, Prefix: "memory-"})
	return measurement{values: map[string]float64{"bytes": (w.usedMemory(t) - before) / float64(pushes)}}
}
