package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"
)

func newPushSendCommand() *cobra.Command {
	var push struct {
		Platform            string `json:"platform"`
		MessagePrototypeKey string `json:"messagePrototypeKey"`
		PushKey             string `json:"pushKey"`
		Message             string `json:"message"`
		CronExpression      string `json:"cronExpression,omitempty"`
		TimeZone            string `json:"timeZone,omitempty"`
	}
	var idempotencyKey, batch string
	command := &cobra.Command{
		Use:   "send",
		Short: "Post a push and print its id, or a file of pushes",
		Example: `  pushq push send --platform IOS --prototype Hello --push-key 463B3209-6E33-4E88-AF52-CDA87C0550EC --message 'Hello client!'
  pushq push send --batch pushes.ndjson`,
		Args: func(_ *cobra.Command, arguments []string) error {
			if len(arguments) > 0 {
				return fmt.Errorf("%q belongs to no flag: write values with blanks, * or ? in quotes, such as --cron '* * 9-17 ? * MON-FRI'", arguments[0])
			}
			return nil
		},
		RunE: func(command *cobra.Command, _ []string) error {
			if batch != "" {
				return sendBatch(command, batch)
			}
			body, err := json.Marshal(push)
			if err != nil {
				return fmt.Errorf("encode the push: %w", err)
			}
			header := http.Header{"Content-Type": {"application/json"}}
			if idempotencyKey != "" {
				header.Set("Idempotency-Key", idempotencyKey)
			}
			client, err := newPushClient(command)
			if err != nil {
				return err
			}
			defer client.close()
			answer, _, err := client.call(command.Context(), http.MethodPost, "/push", header, body)
			if err != nil {
				return err
			}
			fmt.Fprintln(command.OutOrStdout(), strings.TrimPrefix(answer.Get("Location"), "/push/"))
			return nil
		},
	}
	flags := command.Flags()
	flags.StringVar(&push.Platform, "platform", "", "IOS or ANDROID")
	flags.StringVar(&push.MessagePrototypeKey, "prototype", "", "message prototype (messagePrototypeKey)")
	flags.StringVar(&push.PushKey, "push-key", "", "the user at the provider (pushKey)")
	flags.StringVar(&push.Message, "message", "", "text of the push")
	flags.StringVar(&push.CronExpression, "cron", "", "when it may be sent (cronExpression); see pushq window")
	flags.StringVar(&push.TimeZone, "time-zone", "", "IANA time zone of --cron")
	flags.StringVar(&idempotencyKey, "idempotency-key", "", "makes repeating the command safe")
	flags.StringVar(&batch, "batch", "", "instead of one push: a file (- for the input) with one push a line, as JSON with the fields of POST /push and idempotencyKey; prints one result a line")
	command.MarkFlagsOneRequired("platform", "batch")
	command.MarkFlagsRequiredTogether("platform", "prototype", "push-key", "message")
	for _, name := range []string{"platform", "cron", "time-zone", "idempotency-key"} {
		command.MarkFlagsMutuallyExclusive("batch", name)
	}
	return command
}
