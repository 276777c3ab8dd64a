package main

import (
	"os"

	"github.com/spf13/cobra"
)

const defaultServer = "http://127.0.0.1:8080"

func newPushCommand() *cobra.Command {
	command := newGroup("push", "Send, look up, list, retry and cancel pushes over the HTTP API",
		newPushSendCommand(), newPushGetCommand(), newPushListCommand(), newPushRetryCommand(), newPushCancelCommand())
	server := os.Getenv("PUSHQ_SERVER")
	if server == "" {
		server = defaultServer
	}
	command.PersistentFlags().String("server", server, "address of the API (PUSHQ_SERVER)")
	command.PersistentFlags().String("key", "", "API key (PUSHQ_KEY)")
	return command
}

func newPushClient(command *cobra.Command) *pushClient {
	server, _ := command.Flags().GetString("server") // the parent command has both
	key, _ := command.Flags().GetString("key")
	if key == "" {
		key = os.Getenv("PUSHQ_KEY")
	}
	return &pushClient{server: server, key: key}
}
