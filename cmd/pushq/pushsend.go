package main

import (
	"encoding/json"
	"errors"
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
		Long: `Post a push and print its id, or a file of pushes, one a line. A file may have any number: it is posted in parts of up to
1,000 pushes or 1 MiB, one after the other. If one of them is not accepted, those before it have been.`,
		Example: `  pushq push send --platform IOS --prototype Hello --push-key 463B3209-6E33-4E88-AF52-CDA87C0550EC --message 'Hello client!'
  pushq push send --batch pushes.ndjson`,
		Args: func(_ *cobra.Command, arguments []string) error {
			if len(arguments) > 0 {
				return fmt.Errorf("%q belongs to no flag: write values with blanks, * or ? in quotes, such as --cron '* * 9-17 ? * MON-FRI'", arguments[0])
			}
			return nil
		},
		RunE: func(command *cobra.Command, _ []string) error {
			if err := checkSendFlags(command); err != nil {
				return err
			}
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
	return command
}

// checkSendFlags wants one push or a file of them, whole.
func checkSendFlags(command *cobra.Command) error {
	push := []string{"platform", "prototype", "push-key", "message"}
	others := givenFlags(command, append(push, "cron", "time-zone", "idempotency-key")...)
	missing := missingFlags(command, push...)
	switch {
	case command.Flags().Changed("batch") && len(others) > 0:
		return fmt.Errorf("--batch stands without %s: the lines of its file hold the whole pushes", strings.Join(others, ", "))
	case command.Flags().Changed("batch"):
		return nil
	case len(others) == 0:
		return errors.New("write --platform, --prototype, --push-key and --message for one push, or --batch FILE for many")
	case len(missing) > 0:
		return fmt.Errorf("%s missing: a push needs --platform, --prototype, --push-key and --message", strings.Join(missing, ", "))
	}
	return nil
}
