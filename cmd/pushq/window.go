package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"pushq/scheduler"
)

func newWindowCommand() *cobra.Command {
	var zoneName, at string
	command := &cobra.Command{
		Use:   "window EXPRESSION",
		Short: "Show how a cron expression reads, whether it is open, and when it opens next",
		Example: `  pushq window '* * 9-17 ? * MON-FRI' --zone Europe/Stockholm
  pushq window '0 0 10 * * ?' --at 2027-01-01T00:00:00Z`,
		Args: oneOrMoreArguments("EXPRESSION"),
		RunE: func(command *cobra.Command, arguments []string) error {
			zone, err := scheduler.TimeZone(zoneName)
			if err != nil {
				return fmt.Errorf("--zone: %w", err)
			}
			now := time.Now()
			if at != "" {
				if now, err = time.Parse(time.RFC3339, at); err != nil {
					return fmt.Errorf("--at %q: write a time such as 2027-01-01T09:00:00Z", at)
				}
			}
			// Without quotes a shell takes the expression apart, which does no harm as long as
			// it has found no files to put in.
			window, err := scheduler.ParseWindow(strings.Join(arguments, " "), zone)
			if err != nil && len(arguments) > 1 {
				return fmt.Errorf("the cron expression %w\nWrite the expression in quotes: a shell puts the names of files in the place of * and ?", err)
			}
			if err != nil {
				return fmt.Errorf("the cron expression %w", err)
			}
			printReading(command.OutOrStdout(), window.Read(now, openingsShown), now.In(zone))
			return nil
		},
	}
	command.Flags().StringVar(&zoneName, "zone", "UTC", "IANA time zone; push.timeZone is not looked at")
	command.Flags().StringVar(&at, "at", "", "time to look from, RFC 3339 (default now)")
	return command
}

const openingsShown = 5

func printReading(out io.Writer, reading scheduler.Reading, at time.Time) {
	const layout = "Mon 2006-01-02 15:04:05 -0700"
	until := func(end time.Time) string {
		if end.IsZero() {
			return "stays open for more than " + fmt.Sprint(int(scheduler.MaxOpen/(24*time.Hour))) + " days"
		}
		return "closes " + end.Format(layout)
	}
	fmt.Fprintf(out, "reads as  %s (%s)\n", reading.Kind, reading.Dialect)
	fmt.Fprintf(out, "at        %s\n", at.Format(layout))
	if reading.Open {
		fmt.Fprintf(out, "open      yes, %s\n", until(reading.Closes))
	} else {
		fmt.Fprintln(out, "open      no")
	}
	if len(reading.Next) == 0 {
		return
	}
	fmt.Fprintln(out, "next openings")
	for _, opening := range reading.Next {
		if opening.Window {
			fmt.Fprintf(out, "  %s, %s\n", opening.Start.Format(layout), until(opening.End))
		} else {
			fmt.Fprintf(out, "  %s\n", opening.Start.Format(layout))
		}
	}
}
