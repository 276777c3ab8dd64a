package main

import (
	"github.com/spf13/cobra"

	"pushq/config"
	"pushq/internal/redisconn"
)

// withRedis runs a command that acts on the Redis of the configuration itself:
// it works while no pushq process does.
func withRedis(command *cobra.Command, act func(settings config.Config, clients *redisconn.Clients) error) error {
	if _, err := newLog(command); err != nil { // takes go-redis' own lines off the terminal
		return err
	}
	loaded, err := loadSettings(command, true)
	if err != nil {
		return err
	}
	clients, err := redisconn.Open(loaded.Config.Redis.URL.Reveal(), 0)
	if err != nil {
		return err
	}
	defer func() { _ = clients.Close() }()
	return act(loaded.Config, clients)
}
