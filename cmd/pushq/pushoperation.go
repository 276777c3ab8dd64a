package main

import (
	"context"
	"fmt"
	"net/url"

	"github.com/spf13/cobra"

	"pushq/tasks"
)

// A pushOperation is what a command does to one push, or to every push in a state.
type pushOperation struct {
	name, short, long, example string
	states                     []tasks.State // that --status may name

	// The call for one push; %[1]s is the ID.
	method, path string
	// done is what is printed after it.
	done func(ctx context.Context, client *pushClient, id string) string
}

func newPushOperationCommand(o pushOperation) *cobra.Command {
	var many bulkFlags
	command := &cobra.Command{
		Use:     o.name + " ID | --status STATUS",
		Short:   o.short,
		Long:    o.long,
		Example: o.example,
		Args:    atMostOneArgument,
		RunE: func(command *cobra.Command, arguments []string) error {
			if isBulk, err := many.isBulk(command, arguments); err != nil {
				return err
			} else if isBulk {
				return many.operateOnMany(command, o.name)
			}
			client, err := newPushClient(command)
			if err != nil {
				return err
			}
			defer client.close()
			if _, _, err := client.call(command.Context(), o.method, fmt.Sprintf(o.path, url.PathEscape(arguments[0])), nil, nil); err != nil {
				return err
			}
			fmt.Fprintln(command.OutOrStdout(), o.done(command.Context(), client, arguments[0]))
			return nil
		},
	}
	many.add(command, o.states)
	return command
}
