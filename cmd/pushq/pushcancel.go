package main

import (
	"fmt"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"
)

func newPushCancelCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "cancel ID",
		Short: "Stop a push that waits, so that it is not sent",
		Long: `Stop a push that is SCHEDULED, PENDING or RETRY, so that it is not sent. One that a worker holds already is refused.
To send it after all: pushq push retry ID`,
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, arguments []string) error {
			_, _, err := newPushClient(command).call(command.Context(), http.MethodDelete, "/push/"+url.PathEscape(arguments[0]), nil, nil)
			if err != nil {
				return err
			}
			fmt.Fprintf(command.OutOrStdout(), "%s is cancelled\n", arguments[0])
			return nil
		},
	}
}
