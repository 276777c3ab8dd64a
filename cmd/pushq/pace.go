package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"pushq/config"
	"pushq/internal/limiter"
	"pushq/internal/redisconn"
	"pushq/tasks"
)

const (
	minOverride = 0.01 // requests a second
	minLasts    = time.Second
	maxLasts    = 24 * time.Hour
)

func newPaceCommand() *cobra.Command {
	var lasts time.Duration
	var reset bool
	command := &cobra.Command{
		Use:   "pace [REQUESTS-PER-SECOND --for DURATION]",
		Short: "Show the shared pace, or slow it down for a while",
		Long: `Without arguments: show the configured pace, the one in force over all processes, and why they differ.

With a number: send at most so many requests a second over all processes, for as long as --for says; 0.1 is one in ten
seconds. It replaces an earlier one, and can only slow down: swrve.delayMillis is what the provider allows. Workers hear
of it at once, and restarts change nothing. When it ends, or after --reset, workers are told within five seconds, start
again at 80 % of their pace and gain 1 % a second.

A push that gets no turn within a minute goes back to the queue; no attempt is counted. To stop sending: pushq pause.`,
		Example: `  pushq pace
  pushq pace 10 --for 1h
  pushq pace --reset`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, arguments []string) error {
			var perSecond float64
			switch {
			case reset && (len(arguments) > 0 || lasts != 0):
				return errors.New("--reset stands alone: pushq pace --reset")
			case len(arguments) == 0 && lasts != 0:
				return fmt.Errorf("--for needs a pace: pushq pace 10 --for %s", lasts)
			case len(arguments) > 0:
				var err error
				if perSecond, err = parseOverride(arguments[0], lasts); err != nil {
					return err
				}
			}
			return withRedis(command, func(settings config.Config, clients *redisconn.Clients) error {
				out, ctx, redis := command.OutOrStdout(), command.Context(), clients.Control
				configured := settings.Swrve.Delay()
				if perSecond > 0 {
					if err := checkOverride(perSecond, configured); err != nil {
						return err
					}
					delay := time.Duration(float64(time.Second) / perSecond)
					if err := limiter.Override(ctx, redis, paceKeys(tasks.Swrve), delay, lasts); err != nil {
						return err
					}
				}
				if reset {
					was, err := limiter.ResetOverride(ctx, redis, paceKeys(tasks.Swrve))
					if err != nil {
						return err
					}
					if !was {
						fmt.Fprintln(out, "there was no override")
					}
				}
				pace, err := limiter.ReadPace(ctx, redis, paceKeys(tasks.Swrve))
				if err != nil {
					return err
				}
				printPace(out, pace, configured)
				return nil
			})
		},
	}
	command.Flags().DurationVar(&lasts, "for", 0, "how long, 1s to 24h")
	command.Flags().BoolVar(&reset, "reset", false, "end what an earlier call began")
	addSettingFlags(command)
	return command
}

func parseOverride(text string, lasts time.Duration) (perSecond float64, err error) {
	perSecond, err = strconv.ParseFloat(text, 64)
	if err != nil || !(perSecond >= minOverride && perSecond <= 1e6) {
		return 0, fmt.Errorf("%q is no pace: write requests a second, %v or more, such as 10 or 0.5; to stop sending: pushq pause", text, minOverride)
	}
	if lasts < minLasts || lasts > maxLasts {
		return 0, fmt.Errorf("say for how long, 1s to 24h: pushq pace %s --for 1h", text)
	}
	return perSecond, nil
}

// checkOverride refuses what would have no effect: the slower pace wins.
func checkOverride(perSecond float64, configured time.Duration) error {
	if most := float64(time.Second) / float64(configured); perSecond > most {
		return fmt.Errorf("%s is faster than swrve.delayMillis allows (%s), which is the provider's limit: "+
			"pushq pace only slows down. To send faster, change swrve.delayMillis and restart the workers",
			formatPace(time.Duration(float64(time.Second)/perSecond)), formatPace(configured))
	}
	return nil
}

func printPace(out io.Writer, pace limiter.Pace, configured time.Duration) {
	fmt.Fprintf(out, "configured here  %s (swrve.delayMillis)\n", formatPace(configured))
	if pace.Announced == 0 {
		fmt.Fprintln(out, "workers          none has been heard of in the last 15 seconds")
	} else {
		fmt.Fprintf(out, "workers          %s, the slowest of them\n", formatPace(pace.Announced))
	}
	if pace.Override > 0 {
		fmt.Fprintf(out, "override         %s, for another %s\n", formatPace(pace.Override), pace.OverrideLasts.Round(time.Second))
	} else {
		fmt.Fprintln(out, "override         none")
	}
	if pace.Speed < 1 {
		fmt.Fprintf(out, "slowed down      to %.0f %%, gaining 1 %% a second (after a 429 or an override)\n", pace.Speed*100)
	}
	if pace.Brake > 0 {
		fmt.Fprintf(out, "brake            the provider asked everybody to wait another %s\n", pace.Brake.Round(time.Millisecond))
	}
	switch {
	case pace.Brake > 0:
		fmt.Fprintln(out, "in force         nothing is sent until the brake ends")
	default:
		fmt.Fprintf(out, "in force         %s\n", formatPace(pace.InForce(configured)))
	}
}

// formatPace writes "250 a second", or "one in 10s" for what is slower than one
// a second.
func formatPace(delay time.Duration) string {
	if delay > time.Second {
		return "one in " + delay.Round(time.Millisecond).String()
	}
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.2f", float64(time.Second)/float64(delay)), "0"), ".") + " a second"
}
