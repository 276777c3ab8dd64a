package main

import (
	"fmt"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"
)

func newPushRetryCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "retry ID",
		Short: "Put a push that failed, was cancelled or waits into the queue now",
		Long: `Put a push that is FAILED, GIVEN_UP, CANCELLED, RETRY or SCHEDULED into the queue now, with as many attempts before it
as a new one. A window that is closed stays closed: the push is refused then.`,
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, arguments []string) error {
			_, _, err := newPushClient(command).call(command.Context(), http.MethodPost, "/push/"+url.PathEscape(arguments[0])+"/retry", nil, nil)
			if err != nil {
				return err
			}
			fmt.Fprintf(command.OutOrStdout(), "%s is in the queue; follow it with: pushq push get %s\n", arguments[0], arguments[0])
			return nil
		},
	}
}
