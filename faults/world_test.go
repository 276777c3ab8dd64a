package faults

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/swrvesim"
	"pushq/internal/testenv"
)

// A world is what a fault happens in: a Redis, a simulated Swrve and the pushq
// processes between them.
type world struct {
	t     *testing.T
	pushq testenv.Pushq
	redis *testenv.Redis // nil if somebody else has started it
	swrve *swrvesim.Simulator
}

func newWorld(t *testing.T, simulation swrvesim.Config, redisArguments ...string) *world {
	t.Helper()
	server := testenv.StartRedis(t, redisArguments...)
	w := newWorldAt(t, simulation, server.URL())
	w.redis = server
	return w
}

// newWorldAt is a world whose Redis somebody else has started.
func newWorldAt(t *testing.T, simulation swrvesim.Config, redisURL string) *world {
	t.Helper()
	simulator := swrvesim.New(simulation)
	url, err := simulator.Start("127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = simulator.Close() })
	return &world{t: t, pushq: testenv.Pushq{RedisURL: redisURL, SwrveURL: url + "/push"}, swrve: simulator}
}

// start runs a subcommand and waits until it is ready.
func (w *world) start(subcommand string, settings ...string) *testenv.Process {
	w.t.Helper()
	return w.pushq.StartReady(w.t, subcommand, settings...)
}

// deliveries counts how often each user's push was delivered.
func (w *world) deliveries() map[string]int {
	count := make(map[string]int)
	for _, request := range w.swrve.Ledger() {
		if request.Delivered {
			count[request.User]++
		}
	}
	return count
}

// arrivals counts the requests of a time.
func (w *world) arrivals(from, to time.Time) (count int) {
	for _, request := range w.swrve.Ledger() {
		if request.ArrivedAt.After(from) && request.ArrivedAt.Before(to) {
			count++
		}
	}
	return count
}
