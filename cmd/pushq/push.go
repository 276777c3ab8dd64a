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
	addTLSFlags(flags)
}

// addTLSFlags adds the flags of the commands that may speak HTTPS.
func addTLSFlags(flags *pflag.FlagSet) {
	flags.String("ca", os.Getenv("PUSHQ_CA"), "file with the authority of the server's certificate, if this host does not know it (PUSHQ_CA)")
	flags.String("client-cert", os.Getenv("PUSHQ_CLIENT_CERT"), "file with a certificate to show to a server that asks for one (PUSHQ_CLIENT_CERT)")
	flags.String("client-key", os.Getenv("PUSHQ_CLIENT_KEY"), "file with the private key of --client-cert (PUSHQ_CLIENT_KEY)")
}

func newPushClient(command *cobra.Command) *pushClient {
	server, _ := command.Flags().GetString("server") // addServerFlags adds them
	key, _ := command.Flags().GetString("key")
	if key == "" {
		key = os.Getenv("PUSHQ_KEY")
	}
	client := &pushClient{server: server, key: key}
	client.tls.CA, _ = command.Flags().GetString("ca")
	client.tls.Cert, _ = command.Flags().GetString("client-cert")
	client.tls.Key, _ = command.Flags().GetString("client-key")
	return client
}
