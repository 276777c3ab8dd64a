package main

import (
	"context"
	"net/http"

	"github.com/spf13/cobra"

	"pushq/tasks"
)

func newPushCancelCommand() *cobra.Command {
	return newPushOperationCommand(pushOperation{
		name:  "cancel",
		short: "Stop pushes that wait, so that they are not sent",
		long: `Stop a push that is SCHEDULED, PENDING or RETRY, so that it is not sent. One that a worker holds already is refused.
To send it after all: pushq push retry ID

With --status, do so to every push that is in the state now. The exit code is 1 if nothing of what matched was done, or a
push met a fault.`,
		example: `  pushq push cancel --status SCHEDULED --prototype Hello`,
		states:  tasks.CancellableStates(),
		method:  http.MethodDelete, path: "/push/%[1]s",
		done: func(_ context.Context, _ *pushClient, id string) string { return id + " is cancelled" },
	})
}
