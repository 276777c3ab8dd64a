package faults

import (
	"testing"

	"pushq/internal/swrvesim"
	"pushq/internal/testenv"
)

// A world is what a fault happens in.
type world struct {
	testenv.World
	t *testing.T
}

func newWorld(t *testing.T, simulation swrvesim.Config, redisArguments ...string) *world {
	t.Helper()
	return &world{testenv.NewWorld(t, simulation, redisArguments...), t}
}

// newWorldAt is a world whose Redis somebody else has started.
func newWorldAt(t *testing.T, simulation swrvesim.Config, redisURL string) *world {
	t.Helper()
	return &world{testenv.NewWorldAt(t, simulation, redisURL), t}
}

// start runs a subcommand and waits until it is ready.
func (w *world) start(subcommand string, settings ...string) *testenv.Process {
	w.t.Helper()
	return w.StartReady(w.t, subcommand, settings...)
}
