package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"pushq/config"
	"pushq/handlers/fcm"
	"pushq/handlers/swrve"
	"pushq/internal/breaker"
	"pushq/internal/limiter"
	"pushq/internal/redisconn"
	"pushq/tasks"
)

// errFindings makes the process end with code 2.
var errFindings = errors.New("there is something to look at")

func newDoctorCommand() *cobra.Command {
	var fix, asJSON bool
	command := &cobra.Command{
		Use:   "doctor",
		Short: "Say what is wrong with the queues, and what to do about it",
		Long: `Look at Redis, its clock and the queues of every channel, and say what is wrong, what that does to pushes, and how it is mended.
It reads page by page and blocks nobody; with a million tasks it takes up to a minute. What looks wrong is looked at again
after six seconds, because most of it is only on its way.

Without --fix nothing is changed. --fix mends what can be mended without sending a push twice or losing one:
  unregistered-queue  registers it
  leaseless-active    puts the push back into the queue, unless a worker may still have it in hand
  ghost               removes the id of a task that is gone, and stores the push again if its record has it
  misplaced-task      puts the task where it belongs
  stranded-claim      frees the idempotency key
The other findings need a decision of yours: redis-unfit, redis-warning, redis-rights, redis-full, clock, paused, breaker, braked,
unserved-queue, expired-lease, unusable-task, archive-near-cap, many-failed, leading-error, unread-stream, aside-stream.

The exit code is 0 if nothing is left to look at, 2 if something is, and 1 after an error.`,
		Args: noArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			return withRedis(command, fix, func(settings config.Config, clients *redisconn.Clients) error {
				findings, err := examineServer(command.Context(), clients, settings)
				if err == nil {
					var more []tasks.Finding
					more, err = examineChannels(command.Context(), clients.Read, settings, fix)
					findings = append(findings, more...)
				}
				if len(findings) > 0 || err == nil {
					err = errors.Join(printFindings(command.OutOrStdout(), findings, asJSON), err)
				}
				if err != nil {
					return err
				}
				left := 0
				for _, finding := range findings {
					if finding.Left() {
						left++
					}
				}
				if left > 0 {
					return fmt.Errorf("%w: %d of the findings above", errFindings, left)
				}
				return nil
			})
		},
	}
	command.Flags().BoolVar(&fix, "fix", false, "mend what is safe to mend")
	command.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	addSettingFlags(command)
	addYesFlag(command)
	return command
}

// examineChannels looks at every channel that is configured, or whose queues are there.
// After an error it returns what it has found until then.
func examineChannels(ctx context.Context, client redis.UniversalClient, settings config.Config, fix bool) (findings []tasks.Finding, err error) {
	registered, err := tasks.RegisteredQueues(ctx, client)
	if err != nil {
		return nil, err
	}
	var failures []error
	for _, channel := range tasks.Channels() {
		configured := isConfigured(channel, settings)
		isThere := slices.ContainsFunc(channel.Queues(), func(queue string) bool { return slices.Contains(registered, queue) })
		if !configured && !isThere {
			continue
		}
		doctor := tasks.NewDoctor(client, channel, tasks.Retention(settings.Push.Retention), longestRequest(channel, settings))
		doctor.Streams = followedStreams(channel)
		more, err := doctor.Examine(ctx, fix)
		findings = append(findings, more...)
		failures = append(failures, err)
		if channel == tasks.FCM {
			more, err := examineBreakers(ctx, client)
			findings = append(findings, more...)
			failures = append(failures, err)
		}
		more, err = examineBrake(ctx, client, channel)
		findings = append(findings, more...)
		failures = append(failures, err)
	}
	more, err := tasks.ExamineOtherQueues(ctx, client)
	return append(findings, more...), errors.Join(append(failures, err)...)
}

// examineBreakers tells of services that do not work while pushes wait for them. Without
// pushes nobody looks whether they work again.
func examineBreakers(ctx context.Context, client redis.UniversalClient) (findings []tasks.Finding, err error) {
	waiting := int64(0)
	for _, queue := range tasks.FCM.Queues() {
		status, err := tasks.ReadQueueStatus(ctx, client, queue)
		if err != nil {
			return nil, err
		}
		waiting += status.Pending + status.Active + status.Retry
	}
	if waiting == 0 {
		return nil, nil
	}
	for _, service := range guardedServices {
		statuses, err := breaker.ReadStatuses(ctx, client, tasks.FCM.BreakerKey(service))
		if err != nil {
			return findings, err
		}
		if statuses[0].State == breaker.Closed {
			continue
		}
		finding := tasks.Finding{
			Fault: "breaker", Count: 1,
			Meaning: fmt.Sprintf("the circuit breaker of %s is %s, and a call failed last at %s: %d pushes of channel %s wait until it works again",
				service, strings.ReplaceAll(string(statuses[0].State), "_", " "), statuses[0].Opened.UTC().Format(time.RFC3339), waiting, tasks.FCM.Name),
			Repair: "nothing here: workers try again by themselves. Look at the service, and at what it answers (pushq push get ID, and the workers' logs)",
		}
		if statuses[0].Refused {
			finding.Repair = "it refuses pushq itself: correct its credentials (fcm.serviceAccount, template.*) and restart the workers; their logs have its answer"
		}
		findings = append(findings, finding)
	}
	return findings, nil
}

// examineBrake looks whether the provider has asked everybody to wait.
func examineBrake(ctx context.Context, client redis.UniversalClient, channel tasks.Channel) ([]tasks.Finding, error) {
	pace, err := limiter.ReadPace(ctx, client, paceKeys(channel))
	if err != nil || pace.Brake == 0 {
		return nil, err
	}
	began := ""
	if !pace.BrakedSince.IsZero() {
		began = "since " + pace.BrakedSince.UTC().Format(time.RFC3339) + " "
	}
	return []tasks.Finding{{
		Fault: "braked", Count: 1,
		Meaning: fmt.Sprintf("the provider of the channel %s has asked everybody to wait, with %q: nothing is sent through it %sfor another %s",
			channel.Name, cmp.Or(pace.BrakedBy, "429"), began, pace.Brake.Round(time.Second)),
		Repair: "it ends by itself, and pushes wait without an attempt counted; if it comes again and again, send slower (pushq pace --channel " +
			channel.Name + " PER-SECOND --for 1h), or ask the provider for more",
	}}, nil
}

func isConfigured(channel tasks.Channel, settings config.Config) bool {
	return channel == tasks.Swrve || channel == tasks.FCM && settings.FCM.Enabled
}

// longestRequest is how long the requests of a channel's workers may take.
func longestRequest(channel tasks.Channel, settings config.Config) time.Duration {
	if channel == tasks.FCM {
		return fcm.MaxDuration(settings.FCM.Timeout())
	}
	provider := swrve.New(swrve.Config{Timeout: settings.Swrve.Timeout()})
	defer provider.Close()
	return provider.MaxDuration()
}

// followedStreams are the streams that the followers of a channel may have, whatever is
// configured here.
func followedStreams(channel tasks.Channel) []tasks.FollowedStream {
	streams := []tasks.FollowedStream{{
		Follower: historyFollower, Does: "write the history", Needs: "a worker with history.postgresUrl, and that database",
	}}
	if channel == tasks.FCM {
		streams = append(streams,
			tasks.FollowedStream{Follower: idempotencyFollower, Does: "write the idempotency keys that others read", Needs: "a worker with fcm.enabled"},
			tasks.FollowedStream{Follower: failedFollower, Does: "put failed messages into rabbitmq.failedQueue", Needs: "a worker with rabbitmq.url, and that RabbitMQ"},
		)
	}
	return streams
}

// examineServer looks at Redis itself. After an error it returns what it has
// found until then.
func examineServer(ctx context.Context, clients *redisconn.Clients, settings config.Config) ([]tasks.Finding, error) {
	var findings []tasks.Finding
	warnings, err := clients.CheckServer(ctx)
	if unfit, ok := errors.AsType[*redisconn.UnfitError](err); ok {
		findings = append(findings, tasks.Finding{
			Fault: "redis-unfit", Count: 1, Meaning: err.Error() + ": pushq refuses to start on it",
			Repair: unfit.Remedy,
		})
	} else if err != nil {
		return nil, err
	}
	for _, warning := range warnings {
		findings = append(findings, tasks.Finding{Fault: "redis-warning", Count: 1, Meaning: warning.Text, Repair: warning.Remedy})
	}
	for _, channel := range tasks.Channels() {
		if !isConfigured(channel, settings) {
			continue
		}
		err := checkRights(ctx, clients.Read, channel, followers(settings, channel))
		if missing, ok := errors.AsType[*redisconn.MissingRightsError](err); ok {
			findings = append(findings, tasks.Finding{
				Fault: "redis-rights", Count: len(missing.Rights), Examples: missing.Rights[:min(len(missing.Rights), 10)],
				Meaning: err.Error() + ". The channel " + channel.Name + " does not start, and where it is at work, what Redis refuses is repeated",
				Repair:  "redis-cli ACL SETUSER user " + strings.Join(missing.Rights, " ") + " (docs/redis.md lists all rights)",
			})
		} else if err != nil {
			return findings, err
		}
	}
	memory, err := redisconn.ReadMemory(ctx, clients.Read)
	if err != nil && !errors.Is(err, redisconn.ErrUntold) {
		return findings, err
	}
	if memory.Share() >= tasks.RefuseFrom {
		findings = append(findings, tasks.Finding{
			Fault: "redis-full", Count: 1,
			Meaning: fmt.Sprintf("%.0f %% of redis' maxmemory is used: new pushes are refused, and at 100 %% workers can take none either", 100*memory.Share()),
			Repair:  "raise maxmemory (redis-cli CONFIG SET maxmemory, and in its configuration), or shorten push.retention.sent",
		})
	}
	clock := redisconn.NewClock(clients.Read, time.Now)
	clock.Key = tasks.Swrve.PaceKey()
	if err := clock.Measure(ctx); err != nil {
		return findings, err
	}
	if clock.Skewed() {
		findings = append(findings, tasks.Finding{
			Fault: "clock", Count: 1,
			Meaning: fmt.Sprintf("this host's clock is %s off that of Redis: workers on it take no pushes", clock.Offset().Round(time.Millisecond)),
			Repair:  "set the clock by NTP on both hosts: timedatectl set-ntp true",
		})
	}
	return findings, nil
}

func printFindings(out io.Writer, findings []tasks.Finding, asJSON bool) error {
	if asJSON {
		encoder := json.NewEncoder(out)
		encoder.SetEscapeHTML(false)
		for _, finding := range findings {
			if err := encoder.Encode(finding); err != nil {
				return fmt.Errorf("print the findings: %w", err)
			}
		}
		return nil
	}
	if len(findings) == 0 {
		fmt.Fprintln(out, "nothing found")
	}
	for _, finding := range findings {
		fmt.Fprint(out, finding.Fault)
		if finding.Queue != "" {
			fmt.Fprint(out, " in queue ", finding.Queue)
		}
		if len(finding.Examples) > 0 {
			fmt.Fprintf(out, ": %d", finding.Count)
			if finding.More {
				fmt.Fprint(out, " or more")
			}
		}
		if finding.Fixed > 0 {
			fmt.Fprintf(out, ", %d mended", finding.Fixed)
		}
		fmt.Fprintf(out, "\n  %s\n", finding.Meaning)
		if len(finding.Examples) > 0 {
			fmt.Fprintf(out, "  such as: %s\n", strings.Join(finding.Examples, " "))
		}
		if finding.Left() {
			fmt.Fprintf(out, "  what to do: %s\n", finding.Repair)
		}
	}
	return nil
}
