package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"pushq/config"
	"pushq/internal/limiter"
	"pushq/internal/redisconn"
	"pushq/tasks"
)

const (
	minOverride = 0.01 // requests a second
	maxOverride = 1e6
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
seconds. It replaces an earlier one, and can only slow down: swrve.delayMillis (fcm.delayMillis) is what the provider allows. Workers hear
of it with their next request, those that are idle within five seconds, and restarts change nothing. Every process logs it. When it ends, or after --reset, workers are told within five seconds, start
again at 80 % of their pace and gain 1 % a second.

A push that gets no turn within a minute goes back to the queue; no attempt is counted. To stop sending: pushq pause.
All this is about the channel swrve, or the one that --channel names.`,
		Example: `  pushq pace
  pushq pace 10 --for 1h
  pushq pace --reset`,
		Args: atMostOneArgument,
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
			channel, err := chosenChannel(command)
			if err != nil {
				return err
			}
			return withRedis(command, reset || perSecond > 0, func(settings config.Config, clients *redisconn.Clients) error {
				out, ctx, redis, keys := command.OutOrStdout(), command.Context(), clients.Control, paceKeys(channel)
				configured := configuredPaceOf(channel, settings)
				if perSecond > 0 {
					if err := configured.check(perSecond); err != nil {
						return err
					}
					if err := tasks.WriteOperatorNote(ctx, redis, channel, tasks.NotePace, operatorNote(fmt.Sprintf("pace %s --for %s", arguments[0], lasts))); err != nil {
						return err
					}
					delay := time.Duration(float64(time.Second) / perSecond)
					if err := limiter.Override(ctx, redis, keys, delay, lasts); err != nil {
						return err
					}
				}
				if reset {
					if err := tasks.WriteOperatorNote(ctx, redis, channel, tasks.NotePace, operatorNote("pace --reset")); err != nil {
						return err
					}
					was, err := limiter.ResetOverride(ctx, redis, keys)
					if err != nil {
						return err
					}
					if !was {
						fmt.Fprintln(out, "there was no override")
					}
				}
				pace, err := limiter.ReadPace(ctx, redis, keys)
				if err != nil {
					return err
				}
				printPace(out, pace, configured)
				tellOfOthers(out, command, settings)
				return nil
			})
		},
	}
	addDuration(command.Flags(), &lasts, "for", "how long, 1s to 24h")
	command.Flags().BoolVar(&reset, "reset", false, "end what an earlier call began")
	addSettingFlags(command)
	addChannelFlag(command)
	addYesFlag(command)
	command.SetFlagErrorFunc(negativePace)
	return command
}

// negativePace explains a negative number, which is read as flags.
func negativePace(command *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() != "" {
		if _, notNumber := strconv.ParseFloat(unknown.GetSpecifiedShortnames(), 64); notNumber == nil {
			return fmt.Errorf("-%s is no pace: %s", unknown.GetSpecifiedShortnames(), paceForm)
		}
	}
	return plainFlagError(command, err)
}

// paceForm says how a pace is written.
var paceForm = fmt.Sprintf("write requests a second, %v or more, such as 10 or 0.5; to stop sending: pushq pause", minOverride)

func parseOverride(text string, lasts time.Duration) (perSecond float64, err error) {
	perSecond, err = strconv.ParseFloat(text, 64)
	switch {
	case perSecond > maxOverride: // too large for a float64 is infinite, and an error
		return 0, fmt.Errorf("%s is too fast: write at most %.0f requests a second, such as 10", text, float64(maxOverride))
	case err != nil || !(perSecond >= minOverride): // not a number is not
		return 0, fmt.Errorf("%q is no pace: %s", text, paceForm)
	case lasts == 0:
		return 0, fmt.Errorf("say for how long, 1s to 24h: pushq pace %s --for 1h", text)
	case lasts < minLasts:
		return 0, fmt.Errorf("--for %s is too short: write 1s to 24h", lasts)
	case lasts > maxLasts:
		return 0, fmt.Errorf("--for %s is too long: write 1s to 24h", lasts)
	}
	return perSecond, nil
}

// A configuredPace is the least time between two requests, and the setting that says so.
type configuredPace struct {
	delay   time.Duration
	setting string
}

func configuredPaceOf(channel tasks.Channel, settings config.Config) configuredPace {
	if channel == tasks.FCM {
		return configuredPace{settings.FCM.Delay(), "fcm.delayMillis"}
	}
	return configuredPace{settings.Swrve.Delay(), "swrve.delayMillis"}
}

// check refuses what would have no effect: the slower pace wins.
func (c configuredPace) check(perSecond float64) error {
	if most := float64(time.Second) / float64(c.delay); perSecond > most {
		return fmt.Errorf("%[1]s is faster than %[3]s allows (%[2]s), which is the provider's limit: "+
			"pushq pace only slows down. To send faster, change %[3]s and restart the workers",
			formatPace(time.Duration(float64(time.Second)/perSecond)), formatPace(c.delay), c.setting)
	}
	return nil
}

func printPace(out io.Writer, pace limiter.Pace, configured configuredPace) {
	fmt.Fprintf(out, "configured here  %s (%s)\n", formatPace(configured.delay), configured.setting)
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
		if !pace.BrakedSince.IsZero() {
			fmt.Fprintf(out, "                 since %s: %s\n", pace.BrakedSince.UTC().Format(time.RFC3339), pace.BrakedBy)
		}
	}
	switch {
	case pace.Brake > 0:
		fmt.Fprintln(out, "in force         nothing is sent until the brake ends")
	default:
		fmt.Fprintf(out, "in force         %s\n", formatPace(pace.InForce(configured.delay)))
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
