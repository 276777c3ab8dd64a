package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

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
		done: whereRetried,
	})
}

// whereRetried looks where a push is that has just been retried: one that was cancelled may
// wait for its window again.
func whereRetried(ctx context.Context, client *pushClient, id string) string {
	var push struct {
		Status        tasks.State `json:"status"`
		NextAttemptAt string      `json:"nextAttemptAt"`
	}
	where := "is retried"
	_, answer, err := client.call(ctx, http.MethodGet, "/push/"+url.PathEscape(id), nil, nil)
	if err == nil && json.Unmarshal(answer, &push) == nil {
		where = "is in the queue"
		if push.Status == tasks.Scheduled {
			where = "waits for its window, until " + push.NextAttemptAt
		}
	}
	return fmt.Sprintf("%[1]s %[2]s; follow it with: pushq push get %[1]s", id, where)
}
