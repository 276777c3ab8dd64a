package handlers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"pushq/tasks"
)

func TestPostponed(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{0, 1500 * time.Millisecond, time.Minute} {
		least := time.Now().Add(max(after, shortDelay))
		until := postponed(Outcome{Verdict: Postponed, RetryAfter: after}).until
		require.False(t, until.Before(least), after)
		require.Zero(t, until.Nanosecond(), "asynq cuts fractions of a second off")
		require.WithinDuration(t, least, until, 2*time.Second)
	}
}

func TestDecide(t *testing.T) {
	t.Parallel()
	next := time.Date(2026, 11, 27, 9, 0, 0, 1, time.UTC)
	refused := Outcome{Verdict: Permanent, ErrorType: tasks.ErrorSwrve, ErrorCode: 400, ErrorMessage: "no"}
	busy := Outcome{Verdict: Retryable, ErrorType: tasks.ErrorSwrve, ErrorCode: 503}
	tests := []struct {
		name    string
		outcome Outcome
		probe   bool
		last    bool
		end     tasks.State
		text    string // "" for a nil answer
	}{
		{"delivered", Outcome{}, false, false, tasks.Sent, ""},
		{"delivered at last", Outcome{}, false, true, tasks.Sent, ""},
		{"refused", refused, false, false, tasks.Failed, "failed: SWRVE 400: no"},
		{"refused at last", refused, false, true, tasks.Failed, "failed: SWRVE 400: no"},
		{"busy", busy, false, false, "", "attempt failed: SWRVE 503"},
		{"busy at last", busy, false, true, tasks.GivenUp, "given up: SWRVE 503"},
		{"still dead", busy, true, false, "", "deferred: breaker: the probe failed: SWRVE 503"},
		{"still dead at last", busy, true, true, "", "deferred: breaker: the probe failed: SWRVE 503"},
	}
	for _, test := range tests {
		end, answer := decide(test.outcome, test.probe, test.last, next)
		require.Equal(t, test.end, end, test.name)
		if test.text == "" {
			require.NoError(t, answer, test.name)
			continue
		}
		require.EqualError(t, answer, test.text, test.name)
		require.Equal(t, test.end != "", errors.Is(answer, asynq.SkipRetry), test.name)
		require.NotErrorIs(t, answer, asynq.RevokeTask, test.name)
	}

	_, answer := decide(busy, false, false, next)
	var failed *failedAttempt
	require.ErrorAs(t, answer, &failed)
	require.Equal(t, time.Date(2026, 11, 27, 9, 0, 1, 0, time.UTC), failed.until, "asynq cuts fractions of a second off")
	_, answer = decide(busy, true, true, next)
	var deferred *deferral
	require.ErrorAs(t, answer, &deferred)
	require.Equal(t, failed.until, deferred.until)
}

func TestRetryDelay(t *testing.T) {
	t.Parallel()
	until := time.Now().Add(time.Minute)
	tests := []struct {
		name  string
		err   error
		least time.Duration
		most  time.Duration
	}{
		{"deferral", &deferral{reason: "window opens", until: until}, 50 * time.Second, time.Minute},
		{"deferral within another error", fmt.Errorf("x: %w", &deferral{until: until}), 50 * time.Second, time.Minute},
		{"deferral that is over", &deferral{until: until.Add(-time.Hour)}, -time.Hour, 0},
		{"failed attempt", &failedAttempt{until: until}, 50 * time.Second, time.Minute},
		{"lost lease", asynq.ErrLeaseExpired, 5 * time.Second, 5 * time.Second},
		{"cancelled", context.Canceled, 2 * time.Minute, 2*time.Minute + time.Second},
		{"timeout of the task", context.DeadlineExceeded, 2 * time.Minute, 2*time.Minute + time.Second},
		{"bug", errors.New("bug"), 2 * time.Minute, 2*time.Minute + time.Second},
	}
	for _, test := range tests {
		earliest := time.Now()
		delay := retryDelay(test.err, 2*time.Minute)
		require.GreaterOrEqual(t, delay, test.least-time.Since(earliest), test.name)
		require.LessOrEqual(t, delay, test.most, test.name)
	}

	// What asynq stores is cut to whole seconds and still not too early.
	began := time.Now()
	delay := retryDelay(errors.New("bug"), time.Minute)
	stored := time.Unix(time.Now().Add(delay).Unix(), 0)
	require.False(t, stored.Before(began.Add(time.Minute)), "%s after %s", stored, began)
}

func TestIsFailure(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]bool{
		&failedAttempt{text: "x"}:             true,
		&ended{"failed: x"}:                   true,
		errors.New("bug"):                     true,
		&deferral{reason: "shutdown"}:         false,
		asynq.ErrLeaseExpired:                 false,
		context.Canceled:                      false,
		context.DeadlineExceeded:              false,
		fmt.Errorf("x: %w", &deferral{}):      false,
		fmt.Errorf("x: %w", context.Canceled): false,
	} {
		require.Equal(t, want, isFailure(err), "%v", err)
	}
}

func TestTheTextsTellTheState(t *testing.T) {
	t.Parallel()
	require.True(t, strings.HasPrefix(windowDeferral(time.Now()).Error(), tasks.WindowPrefix))
	require.True(t, strings.HasPrefix((&deferral{reason: "x"}).Error(), tasks.DeferredPrefix))
	require.False(t, strings.HasPrefix((&failedAttempt{text: "x"}).Error(), tasks.DeferredPrefix))
	require.Equal(t, tasks.GivenUpPrefix, endPrefix(tasks.GivenUp))
	require.Equal(t, tasks.FailedPrefix, endPrefix(tasks.Failed))
}

func TestOutcomeText(t *testing.T) {
	t.Parallel()
	for want, outcome := range map[string]Outcome{
		"OTHER":           {ErrorType: tasks.ErrorOther},
		"OTHER: no route": {ErrorType: tasks.ErrorOther, ErrorMessage: "no route"},
		"SWRVE 503":       {ErrorType: tasks.ErrorSwrve, ErrorCode: 503},
		"SWRVE 503: busy": {ErrorType: tasks.ErrorSwrve, ErrorCode: 503, ErrorMessage: "busy"},
	} {
		require.Equal(t, want, outcome.text())
	}
}

func TestCut(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		text  string
		limit int
		want  string
	}{
		{"", 3, ""},
		{"abc", 3, "abc"},
		{"abcd", 3, "abc"},
		{"aé", 3, "aé"},
		{"abé", 3, "ab"},
		{"€", 2, ""},
		{"a\x00b", 9, "a\uFFFDb"},
		{"a\xffb", 9, "a\uFFFDb"},
	} {
		require.Equal(t, test.want, cut(test.text, test.limit), "%q", test.text)
	}
	rapid.Check(t, func(t *rapid.T) {
		text := string(rapid.SliceOf(rapid.Byte()).Draw(t, "text"))
		limit := rapid.IntRange(0, 40).Draw(t, "limit")
		got := cut(text, limit)
		require.LessOrEqual(t, len(got), limit)
		require.True(t, utf8.ValidString(got))
		require.NotContains(t, got, "\x00")
	})
}

func TestShare(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		concurrency := rapid.IntRange(1, 5000).Draw(t, "concurrency")
		pollers := rapid.IntRange(1, min(8, concurrency)).Draw(t, "pollers")
		total, least, most := 0, concurrency, 0
		for poller := range pollers {
			part := share(concurrency, pollers, poller)
			total, least, most = total+part, min(least, part), max(most, part)
		}
		require.Equal(t, concurrency, total)
		require.GreaterOrEqual(t, least, 1, "asynq takes 0 for the number of cores")
		require.LessOrEqual(t, most-least, 1)
	})
}
