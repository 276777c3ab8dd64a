package faults

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"pushq/internal/fcmsim"
	"pushq/internal/swrvesim"
	"pushq/internal/testenv"
)

// An fcmWorld has a simulated Firebase and template service, too.
type fcmWorld struct {
	*world
	testenv.FCM
}

func newFCMWorld(t *testing.T, simulation fcmsim.Config, redisArguments ...string) *fcmWorld {
	t.Helper()
	return &fcmWorld{newWorld(t, swrvesim.Config{}, redisArguments...), testenv.StartFCM(t, simulation)}
}

// start runs a subcommand with the channel fcm and waits until it is ready.
func (w *fcmWorld) start(subcommand string, settings ...string) *testenv.Process {
	w.t.Helper()
	return w.world.start(subcommand, slices.Concat(w.Settings, settings)...)
}

// newNotifiers returns callers that post messages for Firebase.
func newNotifiers(t *testing.T) *callers {
	c := newCallers(t)
	c.notifications = true
	return c
}

// reckonNotifications is reckon for messages.
func (w *fcmWorld) reckonNotifications(c *callers, api *testenv.Process) account {
	w.t.Helper()
	a := count(w.t, c, api, w.Delivered())
	a.requireNothingLost(w.t)
	return a
}

// requireSentOnce wants everything that was accepted to have arrived, once.
func (a account) requireSentOnce(t *testing.T) {
	t.Helper()
	require.Positive(t, a.accepted)
	require.Equal(t, a.accepted, a.sent)
	require.Zero(t, a.duplicates)
}
