package main

import (
	"github.com/spf13/cobra"

	"pushq/config"
	"pushq/internal/limiter"
	"pushq/internal/redisconn"
	"pushq/tasks"
)

// withRedis runs a command that acts on the Redis of the configuration itself:
// it works while no pushq process does.
func withRedis(command *cobra.Command, act func(settings config.Config, clients *redisconn.Clients) error) error {
	log, err := newLog(command) // takes go-redis' own lines off the terminal
	if err != nil {
		return err
	}
	loaded, err := loadSettings(command, true, nil)
	if err != nil {
		return err
	}
	clients, err := redisServer(loaded.Config.Redis, log).Open(0)
	if err != nil {
		return err
	}
	defer func() { _ = clients.Close() }()
	return act(loaded.Config, clients)
}

// paceKeys are where workers and operators find a channel's shared pace.
func paceKeys(of tasks.Channel) limiter.Keys {
	return limiter.Keys{Pace: of.PaceKey(), Brake: of.BrakeKey(), Override: of.PaceOverrideKey()}
}
