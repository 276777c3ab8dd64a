package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"
)

func newPushGetCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "get ID",
		Short: "Print a push with its state and attempts as JSON",
		Long: `Print a push with its state and attempts as JSON, whatever its channel. What only the device is to know of a notification,
its recipient and variables, is left out.`,
		Args: oneArgument("ID"),
		RunE: func(command *cobra.Command, arguments []string) error {
			client, err := newPushClient(command)
			if err != nil {
				return err
			}
			defer client.close()
			_, answer, err := client.call(command.Context(), http.MethodGet, "/push/"+url.PathEscape(arguments[0]), nil, nil)
			if err != nil {
				return err
			}
			if answer, err = withoutTexts(answer); err != nil {
				return err
			}
			var indented bytes.Buffer
			if err := json.Indent(&indented, answer, "", "  "); err != nil {
				return fmt.Errorf("read the answer: %w", err)
			}
			_, err = fmt.Fprintf(command.OutOrStdout(), "%s\n", bytes.TrimSpace(indented.Bytes()))
			return err
		},
	}
}
