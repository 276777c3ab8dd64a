package main

import (
	"context"
	"time"

	"pushq/tasks"
)

// pauseOnRefusal returns what pauses a channel whose provider refuses pushq itself, for the
// reason that it is given. A channel that is paused already stays as it is.
func (s *service) pauseOnRefusal(channel tasks.Channel) func(ctx context.Context, reason string) error {
	return func(ctx context.Context, reason string) error {
		paused, err := tasks.PausedQueues(ctx, s.clients.Read, channel)
		if err != nil || len(paused) == len(channel.Queues()) {
			return err
		}
		note := tasks.OperatorNote{Action: "pause", By: "pushq (" + reason + ")", At: tasks.MillisOf(time.Now())}
		_, err = tasks.Pause(ctx, s.clients.Read, channel, note, 0)
		return err
	}
}
