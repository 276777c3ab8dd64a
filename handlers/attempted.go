package handlers

import (
	"context"
	"log/slog"
	"time"

	"golang.org/x/time/rate"

	"pushq/internal/metrics"
	"pushq/tasks"
)

// outcomeName is how log and metrics name what came of an attempt.
func outcomeName(outcome Outcome, end tasks.State) string {
	switch {
	case outcome.Verdict == Delivered:
		return metrics.OutcomeOK
	case end == tasks.Failed:
		return metrics.OutcomeFail
	case end == tasks.GivenUp:
		return metrics.OutcomeGiveUp
	default:
		return metrics.OutcomeRetry
	}
}

// attempted writes the one line that each attempt has in the log, and counts
// the attempt. final says that it ended its push.
func (r *run) attempted(number int, name string, final bool, took time.Duration, outcome Outcome) {
	r.Log.LogAttrs(context.Background(), slog.LevelInfo, "attempt",
		r.push.LogAttr(), slog.String("channel", r.Channel.Name), slog.Int("attempt", number),
		slog.String("outcome", name), slog.Int64("millis", took.Milliseconds()),
		slog.String("error_type", string(outcome.ErrorType)), slog.Int("error_code", outcome.ErrorCode),
		slog.Bool("maybe_delivered", outcome.MaybeDelivered), slog.Bool("drop_token", outcome.DropToken),
		slog.Bool("replaced_token", outcome.Replacement != ""))
	if outcome.DropToken {
		r.Metrics.DroppedTokens.Inc()
	}
	if outcome.Replacement != "" {
		r.Metrics.ReplacedTokens.Inc()
	}
	if outcome.Alarm {
		r.Metrics.Alarms.Inc()
		limit, _ := r.alarmErrors.LoadOrStore(outcome.ErrorType, &rate.Sometimes{Interval: alarmInterval})
		limit.(*rate.Sometimes).Do(func() { r.tellAlarm(outcome) })
	}
	r.Metrics.Attempted(name)
	if outcome.Verdict != Delivered {
		r.Metrics.AttemptError(outcome.ErrorType, final, outcome.MaybeDelivered)
	}
}

// alarmInterval is between two lines of the log about what somebody has to mend: every push
// may come to the same.
const alarmInterval = time.Minute

// tellAlarm says that somebody has to mend the configuration. What the provider says may
// quote the request, with text and recipient, so it is left out: the push has it.
func (r *run) tellAlarm(outcome Outcome) {
	what := "the provider refuses pushq itself"
	switch outcome.ErrorType {
	case tasks.ErrorTemplate:
		what = "the template service does not answer as one"
	case tasks.ErrorOther:
		what = "the provider does not answer as one"
	}
	r.Log.LogAttrs(context.Background(), slog.LevelError, what+": mend the configuration; the push of this id has the answer",
		slog.String("id", r.push.ID), slog.String("channel", r.Channel.Name),
		slog.String("error_type", string(outcome.ErrorType)), slog.Int("error_code", outcome.ErrorCode))
}

// interrupted is the outcome of an attempt whose worker died before it could
// record one.
var interrupted = Outcome{Verdict: Retryable, ErrorType: tasks.ErrorOther, MaybeDelivered: true}
