package main

const (
	batchSize    = 1000
	batchCallers = 4
)

func (b *bench) batch() []result {
	found := b.sideBySide("batch", b.sizes.rounds, func(t *stage, c contender) measurement {
		if c.name == pushq.name {
			return measureBatch(t)
		}
		return measureAccept(t, c)
	}, pushq, afternoonTuned)
	return []result{b.judge(found, promise{
		text:  "POST /push/batch of 1,000, 4 callers: ≥ 4 x pushes of echo + asynq.Client, 64 callers",
		value: "pushes", unit: "/s", rule: atLeastTimes(4),
	}, afternoonTuned)}
}

func measureBatch(t *stage) measurement {
	w := newWorld(t, provider{latency: "0"}, 0)
	api := pushq.startReady(t, w, "api", settings{concurrency: inWork})
	report := post(t, api, loadOrder{
		Warmup: t.bench.sizes.acceptWarmup, Duration: t.bench.sizes.acceptDuration, Prefix: "batch-", Batch: batchSize, Callers: batchCallers,
	})
	return measurement{values: map[string]float64{"pushes": report.PerSecond}}
}
