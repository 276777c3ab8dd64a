package main

import (
	"fmt"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"pushq/tasks"
)

func newPushCancelCommand() *cobra.Command {
	var many bulkFlags
	command := &cobra.Command{
		Use:   "cancel ID | --status STATUS",
		Short: "Stop pushes that wait, so that they are not sent",
		Long: `Stop a push that is SCHEDULED, PENDING or RETRY, so that it is not sent. One that a worker holds already is refused.
To send it after all: pushq push retry ID

With --status, do so to every push that is in the state now.`,
		Example: `  pushq push cancel --status SCHEDULED --prototype Hello`,
		Args:    cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, arguments []string) error {
			if isBulk, err := many.isBulk(command, arguments); err != nil {
				return err
			} else if isBulk {
				return many.operateOnMany(command, "cancel")
			}
			_, _, err := newPushClient(command).call(command.Context(), http.MethodDelete, "/push/"+url.PathEscape(arguments[0]), nil, nil)
			if err != nil {
				return err
			}
			fmt.Fprintf(command.OutOrStdout(), "%s is cancelled\n", arguments[0])
			return nil
		},
	}
	many.add(command, tasks.CancellableStates())
	return command
}
