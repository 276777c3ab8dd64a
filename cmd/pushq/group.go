package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

// newGroup is a command that only holds others. Without one of them it shows
// its help; cobra alone would do so, successfully, for a mistyped one too.
func newGroup(use, short string, commands ...*cobra.Command) *cobra.Command {
	group := &cobra.Command{
		Use:   use,
		Short: short,
		Args:  cobra.ArbitraryArgs,
		RunE: func(command *cobra.Command, arguments []string) error {
			if len(arguments) > 0 {
				return fmt.Errorf("unknown command %q: see %s --help", arguments[0], command.CommandPath())
			}
			return command.Help()
		},
	}
	group.AddCommand(commands...)
	return group
}
