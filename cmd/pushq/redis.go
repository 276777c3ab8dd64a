package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"pushq/config"
	"pushq/internal/limiter"
	"pushq/internal/redisconn"
	"pushq/tasks"
)

// withRedis runs a command that acts on the Redis of the configuration itself:
// it works while no pushq process does. It says which Redis that is, and asks before it
// changes one that no pushq has used.
func withRedis(command *cobra.Command, changes bool, act func(settings config.Config, clients *redisconn.Clients) error) error {
	log, flush, err := newLog(command) // takes go-redis' own lines off the terminal
	if err != nil {
		return err
	}
	defer flush()
	loaded, err := loadSettings(command, true, nil)
	if err != nil {
		return err
	}
	for _, text := range loaded.UnknownVariables {
		fmt.Fprintln(command.ErrOrStderr(), "warning:", text)
	}
	clients, err := redisServer(loaded.Config.Redis, log).Open(0)
	if err != nil {
		return err
	}
	defer func() { _ = clients.Close() }()
	fmt.Fprintf(command.ErrOrStderr(), "redis: %s (redis.url, %s)\n", loaded.Config.Redis.URL, loaded.Origins["redis.url"])
	err = lookForProcesses(command, clients, changes)
	if err == nil {
		err = act(loaded.Config, clients)
	}
	return redisconn.Explain(err)
}

// lookForProcesses warns of a Redis that no running process uses, which is most often
// another one than was meant, and wants a yes before one is changed that none has used.
func lookForProcesses(command *cobra.Command, clients *redisconn.Clients, changes bool) error {
	ctx := command.Context()
	clock := redisconn.NewClock(clients.Read, time.Now)
	clock.Key = tasks.Swrve.PaceKey()
	err := clock.Measure(ctx)
	var running []string
	if err == nil {
		running, err = tasks.Processes(ctx, clients.Read, clock.Now())
	}
	unused := false
	if err == nil && len(running) == 0 {
		unused, err = tasks.IsUnused(ctx, clients.Read)
	}
	switch {
	case err != nil && changes:
		return err
	case err != nil, len(running) > 0: // who only looks has its own words for the error
		return nil
	case unused && changes:
		return confirm(command, "No pushq has ever used this Redis: is it the right one, and its database?")
	}
	fmt.Fprintln(command.ErrOrStderr(), "warning: no pushq process has been heard of there in the last half minute: is it the Redis, and the database, of those that are meant?")
	return nil
}

const yesFlag = "yes"

// addYesFlag adds the flag of the commands that may ask.
func addYesFlag(command *cobra.Command) {
	command.Flags().Bool(yesFlag, false, "do not ask before changing a Redis that no pushq has used")
}

// confirm asks for a yes on a terminal. Where nobody can answer, only the flag is one.
func confirm(command *cobra.Command, question string) error {
	if yes, _ := command.Flags().GetBool(yesFlag); yes { // addYesFlag adds it
		return nil
	}
	if !isTerminal(command.InOrStdin()) {
		return fmt.Errorf("%s Nothing has been done. If it is: --%s", question, yesFlag)
	}
	fmt.Fprint(command.ErrOrStderr(), question, " [y/N] ")
	if !isYes(command.InOrStdin()) {
		return errors.New("nothing has been done")
	}
	return nil
}

// isYes reads one line; no answer is a no.
func isYes(in io.Reader) bool {
	var answer string
	_, _ = fmt.Fscanln(in, &answer)
	answer = strings.ToLower(answer)
	return answer == "y" || answer == "yes"
}

// paceKeys are where workers and operators find a channel's shared pace.
func paceKeys(of tasks.Channel) limiter.Keys {
	return limiter.Keys{Pace: of.PaceKey(), Brake: of.BrakeKey(), Override: of.PaceOverrideKey()}
}
