package main

import (
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const defaultServer = "http://127.0.0.1:8080"

func newPushCommand() *cobra.Command {
	command := newGroup("push", "Send, look up, list, retry and cancel pushes over the HTTP API",
		newPushSendCommand(), newPushGetCommand(), newPushListCommand(), newPushRetryCommand(), newPushCancelCommand())
	addServerFlags(command.PersistentFlags())
	return command
}

// addServerFlags adds the flags of the commands that call the HTTP API.
func addServerFlags(flags *pflag.FlagSet) {
	server := os.Getenv("PUSHQ_SERVER")
	if server == "" {
		server = defaultServer
	}
	flags.String("server", server, "address of the API (PUSHQ_SERVER)")
	flags.String("key", "", "API key (PUSHQ_KEY)")
}

func newPushClient(command *cobra.Command) *pushClient {
	server, _ := command.Flags().GetString("server") // addServerFlags adds both
	key, _ := command.Flags().GetString("key")
	if key == "" {
		key = os.Getenv("PUSHQ_KEY")
	}
	return &pushClient{server: server, key: key}
}
