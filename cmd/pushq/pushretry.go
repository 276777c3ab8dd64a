package main

import (
	"fmt"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"pushq/tasks"
)

func newPushRetryCommand() *cobra.Command {
	var many bulkFlags
	command := &cobra.Command{
		Use:   "retry ID | --status STATUS",
		Short: "Put pushes that failed, were cancelled or wait into the queue now",
		Long: `Put a push that is FAILED, GIVEN_UP, CANCELLED, RETRY or SCHEDULED into the queue now, with as many attempts before it
as a new one. A window that is closed stays closed: the push is refused then.

With --status, do so to every push that is in the state now. One that fails again is not taken a second time.`,
		Example: `  pushq push retry --status FAILED --since 2h --error-type SWRVE --error-code 503`,
		Args:    cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, arguments []string) error {
			if isBulk, err := many.isBulk(command, arguments); err != nil {
				return err
			} else if isBulk {
				return many.operateOnMany(command, "retry")
			}
			_, _, err := newPushClient(command).call(command.Context(), http.MethodPost, "/push/"+url.PathEscape(arguments[0])+"/retry", nil, nil)
			if err != nil {
				return err
			}
			fmt.Fprintf(command.OutOrStdout(), "%s is in the queue; follow it with: pushq push get %s\n", arguments[0], arguments[0])
			return nil
		},
	}
	many.add(command, tasks.RetryableStates())
	return command
}
