package main

import (
	"fmt"
	"slices"
	"time"
)

func (b *bench) window() []result {
	found := b.sideBySide("window", b.sizes.rounds, measureWindow, pushq, afternoon)
	return []result{
		b.judge(found, promise{text: "push with a window: sent ≤ 1.5 s late (p99)", value: "latest", unit: "s", rule: atMost(1.5)}, afternoon),
		b.judge(found, promise{text: "push with a window: never early (the earliest)", value: "earliest", unit: "s", rule: atLeast(0)}, contender{}),
	}
}

// measureWindow spreads pushes over whole seconds to come, well below the rate
// limit, and looks how late each arrives.
func measureWindow(t *stage, c contender) measurement {
	sizes := t.bench.sizes
	w := newWorld(t, provider{latency: "100ms", rate: providerLimit}, 0)
	s := settings{concurrency: inWork, perSecond: providerLimit}
	api := c.startReady(t, w, "api", s)
	c.startReady(t, w, "worker", s)

	const lead = 5 * time.Second
	first := time.Now().Add(lead).Truncate(time.Second)
	dueOf := make(map[string]time.Time)
	for number := range sizes.windowPushes {
		user := fmt.Sprintf("window-%d", number)
		dueOf[user] = first.Add(time.Duration(number%sizes.windowSeconds) * time.Second)
		postWindowed(t, api, user, instant(dueOf[user]))
	}
	if time.Now().After(first) {
		t.Fatalf("the first push was due before the last one was accepted")
	}
	w.swrve.await(t, sizes.windowPushes, time.Until(first)+time.Minute)
	var late []float64
	for _, request := range w.swrve.requests(t) {
		late = append(late, request.ArrivedAt.Sub(dueOf[request.User]).Seconds())
	}
	return measurement{values: map[string]float64{"latest": percentile(late, 99), "earliest": slices.Min(late)}}
}
