package main

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"pushq/internal/swrvesim"
	"pushq/tasks"
)

// The numbers behind the table of memory in docs/redis.md.
func TestMemoryOfAPush(t *testing.T) {
	t.Parallel()
	const pushes = 4000
	w := newWorld(t, swrvesim.Config{})
	api := w.startReady("api")
	client := w.Redis.Client(t)
	acceptPlain(t, api, 50, "warm-up-")
	empty := usedMemory(t, client)
	ids := acceptPlain(t, api, pushes, "463B3209-6E33-4E88-AF52-CDA87C0550EC-"+strings.Repeat("x", 47))
	queued := (usedMemory(t, client) - empty) / pushes

	worker := w.startReady("worker", "SWRVE_DELAYMILLIS=0.2", "SWRVE_CONCURRENCY=50")
	waitForAll(t, api, ids, tasks.Sent, 60*time.Second)
	worker.Terminate()
	require.Zero(t, worker.Wait(20*time.Second))
	kept := usedMemory(t, client)
	keys, err := client.Keys(t.Context(), "asynq:{swrve}:*").Result()
	require.NoError(t, err)
	require.NoError(t, client.Del(t.Context(), keys...).Err())
	records := usedMemory(t, client)
	completed, record := (kept-records)/pushes, (records-empty)/pushes
	t.Logf("bytes of Redis for a push: %d queued, %d as a completed task, %d as a record with one attempt", queued, completed, record)
	for name, bytes := range map[string]int{"queued": queued, "completed": completed, "record": record} {
		require.Positive(t, bytes, name)
		require.LessOrEqual(t, bytes, 850, name) // docs/redis.md says 750
	}
}

// usedMemory leaves out what Redis needs for its clients and scripts.
func usedMemory(t *testing.T, client *redis.Client) int {
	t.Helper()
	memory := client.InfoMap(t.Context(), "memory").Val()["Memory"]
	number := func(name string) int {
		value, err := strconv.Atoi(memory[name])
		require.NoError(t, err, name)
		return value
	}
	return number("used_memory") - number("mem_clients_normal") - number("used_memory_scripts_eval")
}
