package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"pushq/internal/history"
)

func newHistorySearchCommand() *cobra.Command {
	texts := make(map[string]*string) // by the names that the API gives them
	var since, until string
	var limit int
	var asJSON bool
	command := &cobra.Command{
		Use:   "search",
		Short: "Find pushes of the past, newest first",
		Long: `Find pushes of the past, newest first, in the history that the server keeps if its
history.postgresUrl is set. A push is there seconds after its first failed attempt or its
end. One that is run again after its end shows that until the next attempt has failed or
the push has ended anew.`,
		Example: `  pushq history search --user 550e8400-e29b-41d4-a716-446655440000 --since 24h
  pushq history search --status FAILED --template welcome_notification --json`,
		Args: noArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			if limit < 1 {
				return fmt.Errorf("--limit %d: must be at least 1", limit)
			}
			query := url.Values{}
			for name, text := range texts {
				if *text != "" {
					query.Set(name, *text)
				}
			}
			now := time.Now()
			bounds := make(map[string]time.Time)
			for _, bound := range []struct{ name, text string }{{"since", since}, {"until", until}} {
				if bound.text == "" {
					continue
				}
				instant, err := parseMoment("--"+bound.name, bound.text, now)
				if err != nil {
					return err
				}
				bounds[bound.name] = instant
				query.Set(bound.name, instant.UTC().Format(time.RFC3339Nano))
			}
			if from, to := bounds["since"], bounds["until"]; !from.IsZero() && !to.IsZero() && !from.Before(to) {
				return fmt.Errorf("--since %s is not before --until %s: nothing lies between", since, until)
			}
			items, more, err := searchHistory(command, query, limit)
			if err != nil {
				return err
			}
			if err := printHistory(command.OutOrStdout(), items, asJSON); err != nil {
				return err
			}
			if more {
				fmt.Fprintf(command.ErrOrStderr(), "there are more: use --limit to see more than %d\n", limit)
			}
			return nil
		},
	}
	flags := command.Flags()
	texts["user"] = flags.String("user", "", "only those for a user: the user_id of a notification, or the pushKey of a push")
	texts["status"] = flags.String("status", "", fmt.Sprintf("only those in one of %v", history.States()))
	texts["traceId"] = flags.String("trace", "", "only those with a trace_id")
	texts["templateCode"] = flags.String("template", "", "only those with a template_code")
	flags.StringVar(&since, "since", "", "only those accepted since, such as 24h or 2026-11-27T09:00:00Z")
	flags.StringVar(&until, "until", "", "only those accepted before, such as 1h or 2026-11-27T10:00:00Z")
	flags.IntVar(&limit, "limit", 50, "how many at most")
	flags.BoolVar(&asJSON, "json", false, "print one JSON object a line")
	return command
}

// searchHistory follows the pages up to limit, and reports whether there are more.
func searchHistory(command *cobra.Command, query url.Values, limit int) (items []json.RawMessage, more bool, err error) {
	client, err := newPushClient(command)
	if err != nil {
		return nil, false, err
	}
	defer client.close()
	for {
		query.Set("limit", strconv.Itoa(min(limit-len(items), history.MaxPage)))
		_, answer, err := client.call(command.Context(), http.MethodGet, "/history?"+query.Encode(), nil, nil)
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
		items = append(items, page.Items...)
		if page.Next == "" || len(items) >= limit {
			return items, page.Next != "", nil
		}
		query.Set("cursor", page.Next)
	}
}

func printHistory(out io.Writer, items []json.RawMessage, asJSON bool) error {
	if asJSON {
		return printLines(out, items)
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tCHANNEL\tSTATUS\tUSER\tTEXT\tCREATED\tENDED\tATTEMPTS\tLAST ERROR")
	for _, item := range items {
		var entry struct {
			Channel string  `json:"channel"`
			EndedAt *string `json:"endedAt"`
			Push    struct {
				ID                  string          `json:"id"`
				Status              string          `json:"status"`
				MessagePrototypeKey string          `json:"messagePrototypeKey"`
				PushKey             string          `json:"pushKey"`
				CreatedAt           *string         `json:"createdAt"`
				Attempts            []attemptErrors `json:"attempts"`
				Notification        struct {
					UserID       string `json:"user_id"`
					TemplateCode string `json:"template_code"`
				} `json:"notification"`
			} `json:"push"`
		}
		if err := json.Unmarshal(item, &entry); err != nil {
			return fmt.Errorf("read the answer: %w", err)
		}
		push := entry.Push
		user := cmp.Or(push.PushKey, push.Notification.UserID, "-")
		text := cmp.Or(push.MessagePrototypeKey, push.Notification.TemplateCode, "-")
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\n", push.ID, entry.Channel, push.Status, user, text,
			orDash(push.CreatedAt), orDash(entry.EndedAt), len(push.Attempts), lastError(push.Attempts))
	}
	return table.Flush()
}
