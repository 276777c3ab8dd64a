package main

import "github.com/spf13/cobra"

func newHistoryCommand() *cobra.Command {
	command := newGroup("history", "Search what became of pushes over the HTTP API", newHistorySearchCommand())
	addServerFlags(command.PersistentFlags())
	return command
}
