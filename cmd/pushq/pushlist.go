package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"pushq/tasks"
)

func newPushListCommand() *cobra.Command {
	var channel, status, since string
	var limit int
	var asJSON bool
	command := &cobra.Command{
		Use:   "list --status STATUS",
		Short: "List pushes in a state",
		Example: `  pushq push list --status FAILED --since 2h --limit 20
  pushq push list --channel fcm --status RETRY`,
		Args: noArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			if status == "" {
				return fmt.Errorf("name a state: --status with one of %v", tasks.States())
			}
			if limit < 1 {
				return fmt.Errorf("--limit %d: must be at least 1", limit)
			}
			var from time.Time
			if since != "" {
				var err error
				if from, err = parseMoment("--since", since, time.Now()); err != nil {
					return err
				}
			}
			items, more, err := listPushes(command, channel, status, from, limit)
			if err != nil {
				return err
			}
			if err := printPushes(command.OutOrStdout(), channel, items, asJSON); err != nil {
				return err
			}
			if more {
				fmt.Fprintf(command.ErrOrStderr(), "there may be more: use --limit to see more than %d\n", limit)
			}
			return nil
		},
	}
	command.Flags().StringVar(&status, "status", "", fmt.Sprintf("one of %v", tasks.States()))
	command.Flags().StringVar(&since, "since", "", "only those that were accepted or tried since, such as 2h or 2026-11-27T09:00:00Z")
	command.Flags().IntVar(&limit, "limit", 50, "how many at most")
	command.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	addAskedChannelFlag(command, &channel)
	return command
}

// listPushes follows the pages up to limit, and reports whether there may be
// more. Pushes that were tried come newest end first: after a page on which all
// are too old, so are those of the next.
func listPushes(command *cobra.Command, channel, status string, since time.Time, limit int) (items []json.RawMessage, more bool, err error) {
	client, err := newPushClient(command)
	if err != nil {
		return nil, false, err
	}
	defer client.close()
	triedNewestFirst := slices.Contains([]tasks.State{tasks.Sent, tasks.Failed, tasks.GivenUp}, tasks.State(status))
	for cursor := ""; ; {
		query := url.Values{"status": {status}, "limit": {strconv.Itoa(min(limit-len(items), tasks.MaxPage))}}
		if channel != "" {
			query.Set("channel", channel)
		}
		if cursor != "" {
			query.Set("cursor", cursor)
		}
		_, answer, err := client.call(command.Context(), http.MethodGet, "/push?"+query.Encode(), nil, nil)
		if err != nil {
			return nil, false, err
		}
		var page struct {
			Items []json.RawMessage `json:"items"`
			Next  string            `json:"next"`
		}
		if err := json.Unmarshal(answer, &page); err != nil {
			return nil, false, fmt.Errorf("read the answer: %w", err)
		}
		before := len(items)
		for _, item := range page.Items {
			recent, err := isSince(item, since)
			if err != nil {
				return nil, false, err
			}
			if recent {
				items = append(items, item)
			}
		}
		tooOld := triedNewestFirst && len(page.Items) > 0 && len(items) == before
		if cursor = page.Next; cursor == "" || tooOld || len(items) >= limit {
			return items, cursor != "" && !tooOld, nil
		}
	}
}

// isSince reports whether the push was accepted or tried at the time or after.
func isSince(item json.RawMessage, since time.Time) (bool, error) {
	var push struct {
		CreatedAt time.Time `json:"createdAt"`
		Attempts  []struct {
			StartedAt time.Time `json:"startedAt"`
		} `json:"attempts"`
	}
	if err := json.Unmarshal(item, &push); err != nil {
		return false, fmt.Errorf("read the answer: %w", err)
	}
	latest := push.CreatedAt
	for _, attempt := range push.Attempts {
		if attempt.StartedAt.After(latest) {
			latest = attempt.StartedAt
		}
	}
	return !latest.Before(since), nil
}

func printPushes(out io.Writer, channel string, items []json.RawMessage, asJSON bool) error {
	if asJSON {
		for place, item := range items {
			var err error
			if items[place], err = withoutTexts(item); err != nil {
				return err
			}
		}
		return printLines(out, items)
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	about := "PROTOTYPE\tPLATFORM"
	if channel == tasks.FCM.Name {
		about = "TEMPLATE\tUSER"
	}
	fmt.Fprintf(table, "ID\tSTATUS\t%s\tCREATED\tNEXT ATTEMPT\tATTEMPTS\tLAST ERROR\n", about)
	for _, item := range items {
		var push struct {
			ID                  string          `json:"id"`
			Status              string          `json:"status"`
			Platform            string          `json:"platform"`
			MessagePrototypeKey string          `json:"messagePrototypeKey"`
			CreatedAt           *string         `json:"createdAt"`
			NextAttemptAt       *string         `json:"nextAttemptAt"`
			Attempts            []attemptErrors `json:"attempts"`
			Notification        *struct {
				TemplateCode string `json:"template_code"`
				UserID       string `json:"user_id"`
			} `json:"notification"`
		}
		if err := json.Unmarshal(item, &push); err != nil {
			return fmt.Errorf("read the answer: %w", err)
		}
		what, whom := push.MessagePrototypeKey, push.Platform
		if push.Notification != nil {
			what, whom = push.Notification.TemplateCode, push.Notification.UserID
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\n", push.ID, push.Status, what, whom,
			orDash(push.CreatedAt), orDash(push.NextAttemptAt), len(push.Attempts), lastError(push.Attempts))
	}
	return table.Flush()
}

// printLines prints one JSON object a line.
func printLines(out io.Writer, items []json.RawMessage) error {
	for _, item := range items {
		if _, err := fmt.Fprintf(out, "%s\n", item); err != nil {
			return err
		}
	}
	return nil
}

// attemptErrors is what a listing shows of an attempt.
type attemptErrors struct {
	ErrorType *string `json:"errorType"`
	ErrorCode *int    `json:"errorCode"`
}

// lastError is the error of the last attempt, or a dash.
func lastError(attempts []attemptErrors) string {
	if len(attempts) == 0 {
		return "-"
	}
	last := attempts[len(attempts)-1]
	if last.ErrorCode == nil {
		return orDash(last.ErrorType)
	}
	return fmt.Sprintf("%s %d", orDash(last.ErrorType), *last.ErrorCode)
}

func orDash(text *string) string {
	if text == nil {
		return "-"
	}
	return *text
}
