package main

import (
	"context"
	"fmt"
	"io"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"pushq/config"
	"pushq/internal/redisconn"
	"pushq/tasks"
)

func newPauseCommand() *cobra.Command {
	return queueCommand("pause", "Stop sending, without losing anything", `Stop sending: no worker takes a push from the queues any more, whatever process it is in, until pushq resume.
A pause has no end of its own; it survives restarts of workers and of Redis. It is one of the channel swrve, or of the one
that --channel names.

Pushes are still accepted, and wait. What a worker holds already (IN_MEMORY) is finished, not taken back: at most
swrve.concurrency (fcm.concurrency) pushes of each queue and worker process, at the pace in force. To slow those down too:
pushq pace.
GET /health names the paused queues; a process stays healthy and ready.`, "paused", tasks.Pause)
}

func newResumeCommand() *cobra.Command {
	return queueCommand("resume", "Start sending again", `Start sending again after pushq pause, or after somebody paused a queue with asynq's tools.
What has gathered meanwhile is sent at the usual pace; pushes whose window has closed wait for the next one. It is about the
channel swrve, or the one that --channel names.`, "resumed", tasks.Resume)
}

// queueCommand changes both queues of a channel and says what they hold.
func queueCommand(use, short, long, done string, change func(context.Context, redis.UniversalClient, tasks.Channel) ([]tasks.QueueStatus, error)) *cobra.Command {
	command := &cobra.Command{
		Use:   use,
		Short: short,
		Long:  long,
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			channel, err := chosenChannel(command)
			if err != nil {
				return err
			}
			return withRedis(command, func(settings config.Config, clients *redisconn.Clients) error {
				queues, err := change(command.Context(), clients.Read, channel)
				for _, queue := range queues {
					printQueue(command.OutOrStdout(), queue, done)
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
	fmt.Fprintf(out, "queue %s %s: %d ready, %d scheduled, %d to be tried again, %d in memory\n",
		queue.Queue, said, queue.Pending, queue.Scheduled, queue.Retry, queue.Active)
	if queue.Paused && queue.Active > 0 {
		fmt.Fprintln(out, "  those in memory are being finished")
	}
}
