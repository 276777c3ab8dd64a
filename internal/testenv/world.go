package testenv

import (
	"testing"
	"time"

	"pushq/internal/swrvesim"
)

// World is what real pushq processes live in: a Redis and a simulated Swrve of
// their own, which end with the test.
type World struct {
	Pushq
	Redis *Redis // nil if somebody else has started it
	Swrve *swrvesim.Simulator
}

// NewWorld starts a Redis with these arguments, and the simulator.
func NewWorld(t testing.TB, simulation swrvesim.Config, redisArguments ...string) World {
	t.Helper()
	server := StartRedis(t, redisArguments...)
	w := NewWorldAt(t, simulation, server.URL())
	w.Redis = server
	return w
}

// NewWorldAt is a world whose Redis somebody else has started: one server,
// sentinels or a cluster.
func NewWorldAt(t testing.TB, simulation swrvesim.Config, redisURL string) World {
	t.Helper()
	simulator := swrvesim.New(simulation)
	url, err := simulator.Start("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = simulator.Close() })
	return World{Pushq: Pushq{RedisURL: redisURL, SwrveURL: url + "/push"}, Swrve: simulator}
}

// Deliveries counts how often each user's push was delivered.
func (w World) Deliveries() map[string]int {
	count := make(map[string]int)
	for _, request := range w.Swrve.Ledger() {
		if request.Delivered {
			count[request.User]++
		}
	}
	return count
}

// Arrivals counts the requests of a time.
func (w World) Arrivals(from, to time.Time) (count int) {
	for _, request := range w.Swrve.Ledger() {
		if request.ArrivedAt.After(from) && request.ArrivedAt.Before(to) {
			count++
		}
	}
	return count
}
