package main

import (
	"net/http"

	"github.com/spf13/cobra"

	"pushq/tasks"
)

func newPushRetryCommand() *cobra.Command {
	return newPushOperationCommand(pushOperation{
		name:  "retry",
		short: "Put pushes that failed, were cancelled or wait into the queue now",
		long: `Put a push that is FAILED, GIVEN_UP, CANCELLED, RETRY or SCHEDULED into the queue now, with as many attempts before it
as a new one. A window that is closed stays closed: a CANCELLED push waits for it again (SCHEDULED), any other is refused.

With --status, do so to every push that is in the state now. One that fails again is not taken a second time. The exit code
is 1 if nothing of what matched was done, or a push met a fault.`,
		example: `  pushq push retry --status GIVEN_UP --since 2h --error-type SWRVE --error-code 503`,
		states:  tasks.RetryableStates(),
		method:  http.MethodPost, path: "/push/%[1]s/retry",
		done: "%[1]s is in the queue; follow it with: pushq push get %[1]s",
	})
}
