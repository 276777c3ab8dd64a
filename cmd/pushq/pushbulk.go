package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"pushq/tasks"
)

// bulkFlags choose the pushes of a bulk action.
type bulkFlags struct {
	channel                  string
	status, since, errorType string
	errorCode                int
	prototype                string
	cursor                   string
	dryRun                   bool
	asJSON                   bool
}

// bulkSum is an answer of a bulk action, and the sum of all.
type bulkSum struct {
	DryRun  bool `json:"dryRun,omitempty"`
	Matched int  `json:"matched"`
	Done    int  `json:"done"`
	Skipped struct {
		Closed int `json:"closed"`
		Moved  int `json:"moved"`
		Failed int `json:"failed"`
	} `json:"skipped,omitzero"`
	Next string `json:"next,omitempty"`
}

func (b *bulkFlags) add(command *cobra.Command, states []tasks.State) {
	flags := command.Flags()
	flags.StringVar(&b.status, "status", "", fmt.Sprintf("instead of an ID: every push in a state, one of %v", states))
	flags.StringVar(&b.since, "since", "", "only those that ended since (of those that wait: were accepted since), such as 2h or 2026-11-27T09:00:00Z")
	flags.StringVar(&b.errorType, "error-type", "", fmt.Sprintf("only those whose last attempt failed so: one of %v", tasks.ErrorTypes()))
	flags.IntVar(&b.errorCode, "error-code", 0, "only those whose last attempt the provider refused with this status")
	flags.StringVar(&b.prototype, "prototype", "", "only those of this message prototype (not of the channel fcm, which has none)")
	addAskedChannelFlag(command, &b.channel)
	flags.StringVar(&b.cursor, "cursor", "", "go on where a call that was stopped said")
	flags.BoolVar(&b.dryRun, "dry-run", false, "only count what would be done")
	flags.BoolVar(&b.asJSON, "json", false, "print the sums as JSON")
}

// isBulk reports whether the command is about many pushes, or says why it is
// about none.
func (b *bulkFlags) isBulk(command *cobra.Command, arguments []string) (bool, error) {
	given := false
	for _, name := range []string{channelFlag, "status", "since", "error-type", "error-code", "prototype", "cursor", "dry-run", "json"} {
		given = given || command.Flags().Changed(name)
	}
	switch {
	case len(arguments) == 1 && !given:
		return false, nil
	case len(arguments) == 0 && b.status != "":
		return true, nil
	default:
		return false, errors.New("name either one ID or, for many pushes, --status")
	}
}

// filter is the body of the calls, without a cursor.
func (b *bulkFlags) filter(now time.Time) (map[string]any, error) {
	filter := map[string]any{"status": b.status}
	if b.since != "" {
		since, err := parseMoment("--since", b.since, now)
		if err != nil {
			return nil, err
		}
		filter["since"] = since.UTC().Format(time.RFC3339Nano)
	}
	if b.errorType != "" {
		filter["errorType"] = b.errorType
	}
	if b.errorCode != 0 {
		filter["errorCode"] = b.errorCode
	}
	if b.prototype != "" {
		filter["messagePrototypeKey"] = b.prototype
	}
	if b.dryRun {
		filter["dryRun"] = true
	}
	return filter, nil
}

// parseMoment reads the time of a flag, or how long ago it was.
func parseMoment(flag, text string, now time.Time) (time.Time, error) {
	if age, err := parseDuration(text); err == nil && age >= 0 {
		return now.Add(-age), nil
	}
	moment, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("%s %q: write how long ago, such as 90m, 2h or 3d, or a time such as 2026-11-27T09:00:00Z", flag, text)
	}
	return moment, nil
}

// operateOnMany follows the pages of a bulk action to their end. It stops
// between two of them if the command is to stop, and says how to go on.
func (b *bulkFlags) operateOnMany(command *cobra.Command, action string) error {
	filter, err := b.filter(time.Now())
	if err != nil {
		return err
	}
	client, err := newPushClient(command)
	if err != nil {
		return err
	}
	ctx := command.Context()
	defer client.close()
	shown := newProgress(command.ErrOrStderr(), action)
	sum := bulkSum{DryRun: b.dryRun, Next: b.cursor}
	for {
		page, err := bulkPage(context.WithoutCancel(ctx), client, b.path(action), filter, sum.Next)
		if err != nil {
			shown.end()
			if isAbout(err, "cursor") { // it is no better the next time
				return fmt.Errorf("%w\nAfter %d matched, %d done. Begin again without --cursor, with the flags of the call that is to be continued", err, sum.Matched, sum.Done)
			}
			return fmt.Errorf("%w%s", err, b.goOn(action, filter, sum))
		}
		sum.add(page)
		shown.show(sum.Done, sum.text()+" so far")
		if sum.Next == "" || ctx.Err() != nil {
			break
		}
	}
	shown.end()
	if err := b.print(command, sum); err != nil {
		return err
	}
	switch {
	case sum.Next != "":
		return fmt.Errorf("stopped%s", b.goOn(action, filter, sum))
	case sum.Skipped.Failed > 0:
		return fmt.Errorf("%d pushes could not be read or acted on; the server's log names the first of each call", sum.Skipped.Failed)
	case sum.Matched > 0 && sum.Done == 0 && !b.dryRun:
		return fmt.Errorf("nothing was done: none of the pushes that matched could be %s", map[string]string{"retry": "retried", "cancel": "cancelled"}[action])
	}
	return nil
}

// path is the address of the action.
func (b *bulkFlags) path(action string) string {
	path := "/push/" + action
	if b.channel != "" {
		path += "?" + url.Values{"channel": {b.channel}}.Encode()
	}
	return path
}

func bulkPage(ctx context.Context, client *pushClient, path string, filter map[string]any, cursor string) (bulkSum, error) {
	var page bulkSum
	delete(filter, "cursor")
	if cursor != "" {
		filter["cursor"] = cursor
	}
	body, err := json.Marshal(filter)
	if err != nil {
		return page, fmt.Errorf("encode the filter: %w", err)
	}
	_, answer, err := client.call(ctx, http.MethodPost, path, http.Header{"Content-Type": {"application/json"}}, body)
	if err != nil {
		return page, err
	}
	if err := json.Unmarshal(answer, &page); err != nil {
		return page, fmt.Errorf("read the answer: %w", err)
	}
	return page, nil
}

func (b *bulkSum) add(page bulkSum) {
	b.Matched += page.Matched
	b.Done += page.Done
	b.Skipped.Closed += page.Skipped.Closed
	b.Skipped.Moved += page.Skipped.Moved
	b.Skipped.Failed += page.Skipped.Failed
	b.Next = page.Next
}

// text says how many matched and were done, or would be.
func (b *bulkSum) text() string {
	if b.DryRun {
		return fmt.Sprintf("dry run: %d matched, %d would be done", b.Matched, b.Done)
	}
	return fmt.Sprintf("%d matched, %d done", b.Matched, b.Done)
}

func (b *bulkFlags) print(command *cobra.Command, sum bulkSum) error {
	if b.asJSON {
		return json.NewEncoder(command.OutOrStdout()).Encode(sum)
	}
	text := sum.text()
	for _, skipped := range []struct {
		count int
		why   string
	}{
		{sum.Skipped.Closed, "may not be sent now"},
		{sum.Skipped.Moved, "changed their state meanwhile, or left their idempotency key to another push"},
		{sum.Skipped.Failed, "met a fault"},
	} {
		if skipped.count > 0 {
			text += fmt.Sprintf(", %d %s", skipped.count, skipped.why)
		}
	}
	_, err := fmt.Fprintln(command.OutOrStdout(), text)
	return err
}

// goOn says which command continues. Without a cursor nothing has been done.
func (b *bulkFlags) goOn(action string, filter map[string]any, sum bulkSum) string {
	if sum.Next == "" {
		return ""
	}
	words := []string{"pushq push", action}
	if b.channel != "" {
		words = append(words, "--"+channelFlag, shellWord(b.channel))
	}
	for _, flag := range [][2]string{
		{"status", "--status"}, {"since", "--since"}, {"errorType", "--error-type"}, {"errorCode", "--error-code"}, {"messagePrototypeKey", "--prototype"},
	} {
		if value, given := filter[flag[0]]; given {
			words = append(words, flag[1], shellWord(fmt.Sprint(value)))
		}
	}
	if b.dryRun {
		words = append(words, "--dry-run")
	}
	return fmt.Sprintf(" after %s. Go on with:\n%s", sum.text(), strings.Join(append(words, "--cursor", sum.Next), " "))
}

// shellWord quotes what a shell would split or expand.
func shellWord(text string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-.:", r)
	}
	if strings.ContainsFunc(text, func(r rune) bool { return !plain(r) }) {
		return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
	}
	return text
}
