package main

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"time"
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
	count := monitor(t, w.redis.Addr())
	post(t, api, loadOrder{Pushes: pushes, Prefix: "command-"})
	c.start(t, w, "worker", s)
	w.swrve.await(t, pushes, 10*time.Minute)
	time.Sleep(time.Second) // the last outcomes are written
	return measurement{values: map[string]float64{"commands": float64(count.Load()) / float64(pushes)}}
}

// monitor counts the commands that arrive at a Redis from now on, with its own
// MONITOR, where "lua" stands for a script.
func monitor(t *stage, address string) *atomic.Int64 {
	connection, err := net.Dial("tcp", address)
	t.check(err)
	t.Cleanup(func() { _ = connection.Close() })
	_, err = fmt.Fprint(connection, "MONITOR\r\n")
	t.check(err)
	lines := bufio.NewReader(connection)
	_, err = lines.ReadString('\n') // +OK
	t.check(err)
	count := new(atomic.Int64)
	go func() {
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			// +1700000000.123456 [0 127.0.0.1:50000] "evalsha" …
			if _, client, found := strings.Cut(line, "["); found && !strings.HasPrefix(client, "0 lua]") {
				count.Add(1)
			}
		}
	}()
	return count
}
