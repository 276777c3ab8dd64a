package main

import (
	"time"

	"pushq/internal/testenv"
)

func (b *bench) commands() []result {
	found := b.sideBySide("commands", b.sizes.rounds, measureCommands, pushq, afternoonTuned)
	return []result{b.judge(found, promise{
		text: "Redis commands for a push, from POST to its end: ≤ 6", value: "commands", rule: atMost(6),
	}, afternoonTuned)}
}

// measureCommands counts every command that any client sends to Redis from the
// first POST until a backlog is sent, divided by the number of pushes. What a
// script calls inside Redis costs no round trip and is not counted.
func measureCommands(t *stage, c contender) measurement {
	pushes := t.bench.sizes.commandPushes
	w := newWorld(t, provider{latency: "100ms", rate: providerLimit}, 0)
	s := settings{concurrency: inWork, perSecond: providerLimit}
	api := c.startReady(t, w, "api", s)
	count := testenv.CountCommands(t, w.redis.Addr())
	post(t, api, loadOrder{Pushes: pushes, Prefix: "command-"})
	c.start(t, w, "worker", s)
	w.swrve.await(t, pushes, 10*time.Minute)
	time.Sleep(time.Second) // the last outcomes are written
	return measurement{values: map[string]float64{"commands": float64(count.Load()) / float64(pushes)}}
}
