package main

import (
	"fmt"
	"time"
)

// herd is measured beside asynq tuned, although it is a latency: with its
// defaults, redis_rate's burst, the provider refuses single pushes.
func (b *bench) herd() []result {
	found := b.sideBySide("herd", b.sizes.longRounds, measureHerd, pushq, afternoonTuned)
	text := fmt.Sprintf("immediate push while %d windowed ones are due: p95 ≤ 250 ms", b.sizes.herdPushes)
	return []result{b.judge(found, promise{text: text, value: "p95", unit: "ms", rule: atMost(250)}, afternoonTuned)}
}

// measureHerd lets a herd become due at one instant, and posts single pushes
// while it is being sent.
func measureHerd(t *stage, c contender) measurement {
	sizes := t.bench.sizes
	w := newWorld(t, provider{latency: "original", rate: providerLimit}, 0)
	s := settings{concurrency: inWork, perSecond: providerLimit}
	api := c.startReady(t, w, "api", s)
	c.startReady(t, w, "worker", s)
	due := time.Now().Add(sizes.herdWait).Truncate(time.Second)
	post(t, api, loadOrder{Pushes: sizes.herdPushes, Prefix: "herd-", Cron: instant(due)})
	if time.Now().After(due) {
		t.Fatalf("the herd was due before it was complete")
	}
	w.swrve.await(t, 1, time.Until(due)+time.Minute)
	millis := latencies(t, w, api, sizes.herdImmediate, sizes.herdGap)
	left := sizes.herdPushes + sizes.herdImmediate - w.swrve.stats(t).Requests
	return measurement{
		values: map[string]float64{"p95": percentile(millis, 95)},
		note:   fmt.Sprintf("p50 %s ms, %d left afterwards", number(percentile(millis, 50)), left),
	}
}

// instant is a cron expression, in Quartz' six fields, that matches only once a
// year.
func instant(at time.Time) string {
	at = at.UTC()
	return fmt.Sprintf("%d %d %d %d %d ?", at.Second(), at.Minute(), at.Hour(), at.Day(), int(at.Month()))
}
