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
		Args:  cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, arguments []string) error {
			client := newPushClient(command)
			defer client.close()
			_, answer, err := client.call(command.Context(), http.MethodGet, "/push/"+url.PathEscape(arguments[0]), nil, nil)
			if err != nil {
				return err
			}
			var indented bytes.Buffer
			if err := json.Indent(&indented, answer, "", "  "); err != nil {
				return fmt.Errorf("read the answer: %w", err)
			}
			_, err = indented.WriteTo(command.OutOrStdout())
			return err
		},
	}
}
