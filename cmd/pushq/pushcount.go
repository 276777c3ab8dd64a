package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

func newPushCountCommand() *cobra.Command {
	var channel string
	var asJSON bool
	command := &cobra.Command{
		Use:   "count",
		Short: "Count the pushes in each state",
		Long: `Count the pushes in each state, of every channel or of one, without listing them.

A number with ~ is an estimate. Pushes that are tried again or were given back stand in one set of Redis, and those that
FAILED, were GIVEN_UP or CANCELLED in another: of up to 500 in one each is looked at, of more so many chosen at random. The
other numbers are exact at the moment. SENT are those of the last push.retention.completed. To have an exact number, also with
a filter: pushq push retry --status FAILED --dry-run.`,
		Args: noArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			path := "/push/count"
			if channel != "" {
				path += "?" + url.Values{"channel": {channel}}.Encode()
			}
			client, err := newPushClient(command)
			if err != nil {
				return err
			}
			defer client.close()
			_, answer, err := client.call(command.Context(), http.MethodGet, path, nil, nil)
			if err != nil {
				return err
			}
			var counted struct {
				Items []json.RawMessage `json:"items"`
			}
			if err := json.Unmarshal(answer, &counted); err != nil {
				return fmt.Errorf("read the answer: %w", err)
			}
			if asJSON {
				return printLines(command.OutOrStdout(), counted.Items)
			}
			table := tabwriter.NewWriter(command.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(table, "CHANNEL\tSTATUS\tPUSHES")
			for _, item := range counted.Items {
				var count struct {
					Channel string `json:"channel"`
					Status  string `json:"status"`
					Count   int64  `json:"count"`
					Exact   bool   `json:"exact"`
				}
				if err := json.Unmarshal(item, &count); err != nil {
					return fmt.Errorf("read the answer: %w", err)
				}
				about := ""
				if !count.Exact {
					about = "~"
				}
				fmt.Fprintf(table, "%s\t%s\t%s%d\n", count.Channel, count.Status, about, count.Count)
			}
			return table.Flush()
		},
	}
	command.Flags().StringVar(&channel, channelFlag, "", "whose pushes are meant: swrve or fcm; all without it")
	command.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	return command
}
