package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"pushq/config"
	"pushq/tasks"
)

const channelFlag = "channel"

func channelNames() []string {
	var names []string
	for _, channel := range tasks.Channels() {
		names = append(names, channel.Name)
	}
	return names
}

// addChannelFlag adds the flag of the commands that act on one channel in Redis.
func addChannelFlag(command *cobra.Command) {
	command.Flags().String(channelFlag, tasks.Swrve.Name, fmt.Sprintf("whose queues are meant, one of %v", channelNames()))
}

// chosenChannel is the one that the flag names.
func chosenChannel(command *cobra.Command) (tasks.Channel, error) {
	name, _ := command.Flags().GetString(channelFlag) // addChannelFlag adds it
	place := slices.Index(channelNames(), name)
	if place < 0 {
		return tasks.Channel{}, fmt.Errorf("--%s %q: must be one of %v", channelFlag, name, channelNames())
	}
	return tasks.Channels()[place], nil
}

// tellOfOthers says what a command has left alone that was given no channel, and that a
// channel that it was given may be nobody's.
func tellOfOthers(out io.Writer, command *cobra.Command, settings config.Config) {
	if channel, err := chosenChannel(command); err == nil && channel == tasks.FCM && !settings.FCM.Enabled {
		fmt.Fprintf(out, "channel %[1]s is off in the configuration of this command (%[1]s.enabled): only processes that have it on heed this\n", tasks.FCM.Name)
	}
	if settings.FCM.Enabled && !command.Flags().Changed(channelFlag) {
		fmt.Fprintf(out, "channel %[1]s is untouched; to name it: pushq %[2]s --%[3]s %[1]s\n", tasks.FCM.Name, command.Name(), channelFlag)
	}
}

// addAskedChannelFlag adds the flag of the commands that ask the API for the pushes of
// one channel. Which ones there are, the API knows.
func addAskedChannelFlag(command *cobra.Command, into *string) {
	command.Flags().StringVar(into, channelFlag, "", "whose pushes are meant: swrve, as without it, or fcm")
}
