// Command pushq is the whole product in one binary.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go stopOnSignals(stop)
	if err := newRootCommand().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "pushq:", err)
		if errors.Is(err, errFindings) {
			os.Exit(2)
		}
		os.Exit(1) //nolint:gocritic // stop only ends what the exit ends too
	}
}

// sameRequest is how soon a second signal is taken for the first one again.
const sameRequest = 500 * time.Millisecond

// stopOnSignals asks for a graceful stop at the first SIGTERM or SIGINT, and
// ends the process at the second.
func stopOnSignals(stop context.CancelFunc) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	<-signals
	stop()
	// timeout(1) and some supervisors signal a process and its group: the same
	// request twice within milliseconds.
	for first := time.Now(); time.Since(first) < sameRequest; {
		<-signals
	}
	fmt.Fprintln(os.Stderr, "pushq: second signal, ending at once: pushes being sent will be found interrupted")
	os.Exit(130)
}

func newRootCommand() *cobra.Command {
	root := newGroup("pushq", "A Redis-native queue that delivers push notifications at exactly the provider's pace",
		newDevCommand(),
		newServeCommand(),
		newAPICommand(),
		newWorkerCommand(),
		newSimCommand(),
		newPushCommand(),
		newHistoryCommand(),
		newHealthCommand(),
		newLoadCommand(),
		newPauseCommand(),
		newResumeCommand(),
		newPaceCommand(),
		newDoctorCommand(),
		newWindowCommand(),
		newConfigCommand(),
		newVersionCommand(),
	)
	root.Version = version
	root.SilenceUsage, root.SilenceErrors = true, true
	root.SetFlagErrorFunc(plainFlagError)
	root.PersistentFlags().String("log-level", "info", "least level of the log: debug, info, warn or error")
	return root
}
