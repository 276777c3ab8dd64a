package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"pushq/config"
	"pushq/internal/redisconn"
	"pushq/tasks"
)

// maxPause is the longest that a pause may last by itself.
const maxPause = 30 * 24 * time.Hour

func newPauseCommand() *cobra.Command {
	var lasts time.Duration
	var command *cobra.Command
	command = queueCommand(queueAction{
		name: "pause", short: "Stop sending, without losing anything",
		long: `Stop sending: no worker takes a push from the queues any more, whatever process it is in, until pushq resume, or
until the time of --for is over. It survives restarts of workers and of Redis. It takes the place of an earlier pause. It is
one of the channel swrve, or of the one that --channel names.

Pushes are still accepted, and wait. What a worker holds already (IN_MEMORY) is finished, not taken back: at most
swrve.concurrency (fcm.concurrency) pushes of each queue and worker process, at the pace in force. To slow those down too:
pushq pace.
GET /health names the paused queues; a process stays healthy and ready. Every process logs who has paused them.`,
		example: `  pushq pause
  pushq pause --for 1h`,
		done: "paused",
		check: func() error {
			if command.Flags().Changed("for") && (lasts < minLasts || lasts > maxPause) {
				return fmt.Errorf("--for %s: write 1s to 30d, or leave it out for a pause without an end", lasts)
			}
			return nil
		},
		noted: func() string {
			if lasts == 0 {
				return "pause"
			}
			return "pause --for " + lasts.String()
		},
		change: func(ctx context.Context, client redis.UniversalClient, channel tasks.Channel, note tasks.OperatorNote) ([]tasks.QueueStatus, error) {
			return tasks.Pause(ctx, client, channel, note, lasts)
		},
	})
	addDuration(command.Flags(), &lasts, "for", "how long, 1s to 30d (default until pushq resume)")
	return command
}

func newResumeCommand() *cobra.Command {
	return queueCommand(queueAction{
		name: "resume", short: "Start sending again",
		long: `Start sending again after pushq pause, or after somebody paused a queue with asynq's tools.
What has gathered meanwhile is sent at the usual pace; pushes whose window has closed wait for the next one. It is about the
channel swrve, or the one that --channel names.`,
		done:   "resumed",
		check:  func() error { return nil },
		noted:  func() string { return "resume" },
		change: tasks.Resume,
	})
}

// A queueAction is what a command does to both queues of a channel.
type queueAction struct {
	name, short, long, example string
	done                       string       // what is printed of a queue
	check                      func() error // of the flags
	noted                      func() string
	change                     func(context.Context, redis.UniversalClient, tasks.Channel, tasks.OperatorNote) ([]tasks.QueueStatus, error)
}

// queueCommand changes both queues of a channel and says what they hold.
func queueCommand(q queueAction) *cobra.Command {
	command := &cobra.Command{
		Use:     q.name,
		Short:   q.short,
		Long:    q.long,
		Example: q.example,
		Args:    noArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := q.check(); err != nil {
				return err
			}
			channel, err := chosenChannel(command)
			if err != nil {
				return err
			}
			return withRedis(command, true, func(settings config.Config, clients *redisconn.Clients) error {
				queues, err := q.change(command.Context(), clients.Read, channel, operatorNote(q.noted()))
				for _, queue := range queues {
					printQueue(command.OutOrStdout(), queue, q.done)
				}
				if err != nil {
					return fmt.Errorf("%w\nIt is safe to run the command again", err)
				}
				tellOfOthers(command.OutOrStdout(), command, settings)
				return nil
			})
		},
	}
	addSettingFlags(command)
	addChannelFlag(command)
	addYesFlag(command)
	return command
}

func printQueue(out io.Writer, queue tasks.QueueStatus, done string) {
	said := done
	switch {
	case !queue.Changed && queue.Paused:
		said = "was paused already"
	case !queue.Changed:
		said = "was not paused"
	}
	if queue.Lasts > 0 {
		said += ", and is so for another " + queue.Lasts.Round(time.Second).String()
	}
	fmt.Fprintf(out, "queue %s %s: %d ready, %d scheduled, %d to be tried again, %d in memory\n",
		queue.Queue, said, queue.Pending, queue.Scheduled, queue.Retry, queue.Active)
	if queue.Paused && queue.Active > 0 {
		fmt.Fprintln(out, "  those in memory are being finished")
	}
}
