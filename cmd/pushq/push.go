package main

import (
	"errors"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const defaultServer = "http://127.0.0.1:8080"

func newPushCommand() *cobra.Command {
	command := newGroup("push", "Send, look up, list, count, retry and cancel pushes over the HTTP API",
		newPushSendCommand(), newPushGetCommand(), newPushListCommand(), newPushCountCommand(), newPushRetryCommand(), newPushCancelCommand())
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

// newPushClient is the client of --server and --key. Line breaks at the end of a variable,
// as files written on Windows leave them, are left out.
func newPushClient(command *cobra.Command) (*pushClient, error) {
	flag := func(name string) string {
		text, _ := command.Flags().GetString(name) // addServerFlags adds them
		return strings.TrimRight(text, "\r\n")
	}
	client := &pushClient{server: flag("server"), key: flag("key")}
	if client.key == "" {
		client.key = strings.TrimRight(os.Getenv("PUSHQ_KEY"), "\r\n")
	}
	unfit := func(r rune) bool { return r <= ' ' || r > '~' }
	switch {
	case strings.ContainsFunc(client.key, unfit):
		return nil, errors.New("--key or PUSHQ_KEY has a blank, a line break or a character that is not ASCII: no key has one")
	case len(client.key) > 1 && client.key[0] == client.key[len(client.key)-1] && strings.ContainsAny(client.key[:1], `"'`):
		return nil, errors.New("--key or PUSHQ_KEY is in quotes, which docker's --env-file keeps: leave them out")
	}
	client.tls.CA, client.tls.Cert, client.tls.Key = flag("ca"), flag("client-cert"), flag("client-key")
	return client, nil
}
