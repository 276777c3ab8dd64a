package handlers_test

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/limiter"
	"pushq/internal/swrvesim"
	"pushq/tasks"
)

const officeHours = "* * 9-17 ? * MON-FRI"

// wednesday in the far future is what the workers' clock shows where nobody is
// to wait for the opening.
func wednesday(hour int) time.Time { return time.Date(2040, 1, 4, hour, 0, 0, 0, time.UTC) }

// heldPush has become due in a window of the expression.
func heldPush(user, expression string) tasks.Push {
	push := newPush(user)
	push.CronExpression, push.Held, push.DueAt = expression, true, push.CreatedAt
	return push
}

func TestAHeldPushWaitsForItsWindow(t *testing.T) {
	t.Parallel()
	tokyo, err := time.LoadLocation("Asia/Tokyo")
	require.NoError(t, err)
	tests := []struct {
		name, timeZone string
		zone           *time.Location
		now, opening   time.Time
	}{
		{"closed in the evening", "", nil, wednesday(20), wednesday(24 + 9)},
		{"closed in the morning", "", nil, wednesday(8), wednesday(9)},
		{"closed in the workers' zone", "", tokyo, wednesday(12), wednesday(24)},
		{"closed in the push's zone", "Asia/Tokyo", nil, wednesday(12), wednesday(24)},
	}
	w := newWorld(t, swrvesim.Config{})
	for _, test := range tests {
		stop := w.work(workforce{maxAttempts: 1, clock: fixedClock(test.now), zone: test.zone})
		push := heldPush("ann", officeHours)
		push.TimeZone = test.timeZone
		id := w.accept(push)
		w.awaitText("swrve-window", id, "deferred: window opens "+test.opening.Format(time.RFC3339))
		report := w.await(id, tasks.Scheduled, 0)
		require.Empty(t, report.Attempts, test.name)
		require.True(t, test.opening.Equal(report.NextAttemptAt), "%s: %s", test.name, report.NextAttemptAt)
		stop()
	}
	require.Zero(t, w.simulator.Stats().Requests)
	requireNoFailures(t, w)
}

func TestAnOpenWindow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	keeper := &slotKeeper{}
	w.work(workforce{slots: keeper.over})
	requireRows(t, []row{refused(503, "Service"), okRow},
		w.await(w.accept(heldPush("503x1-", "* * * * * ?")), tasks.Sent, 2).Attempts, "always open")
	classes, _, _ := keeper.seen()
	// A busy machine may be late for a slot, and then asks once more.
	classes = slices.DeleteFunc(classes, func(c limiter.Class) bool { return c == limiter.Resumed })
	require.Equal(t, []limiter.Class{limiter.Windowed, limiter.Windowed}, classes)
}

func TestAWindowThatNeverOpensAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	w.work(workforce{clock: fixedClock(wednesday(10))})
	unreadable, nowhere := heldPush("unreadable", "61 * * * * ?"), heldPush("nowhere", officeHours)
	nowhere.TimeZone = "Mars/Olympus"
	for message, push := range map[string]tasks.Push{
		"window closed, never opens again": heldPush("late", "* * * * * ? 2039"),
		"":                                 unreadable,
		" ":                                nowhere,
	} {
		id := w.accept(push)
		report := w.await(id, tasks.Failed, 1)
		require.Len(t, report.Attempts, 1)
		attempt := report.Attempts[0]
		require.Contains(t, attempt.ErrorMessage, message)
		require.NotEmpty(t, attempt.ErrorMessage)
		require.Equal(t, tasks.ErrorOther, attempt.ErrorType)
		require.Zero(t, *attempt.Millis)
		require.False(t, attempt.MaybeDelivered)
	}
	require.Zero(t, w.simulator.Stats().Requests)
}

// The clock says that the window is open; the slot's time, on Redis' clock, is
// outside of it.
func TestAWindowThatClosesBeforeTheSlot(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	keeper := &slotKeeper{}
	stop := w.work(workforce{maxAttempts: 1, clock: fixedClock(wednesday(10)), slots: keeper.over})
	id := w.accept(heldPush("ann", "* * 9-17 ? * * 2040"))
	report := w.await(id, tasks.Scheduled, 0)
	w.awaitText("swrve-window", id, "deferred: window opens 2040-01-01T09:00:00Z")
	require.Empty(t, report.Attempts)
	_, given, _ := keeper.seen()
	require.Len(t, given, 1, "another push can use the slot")
	stop()

	keeper = &slotKeeper{}
	w.work(workforce{
		maxAttempts: 1, slots: keeper.over,
		clock: fixedClock(time.Date(2020, 1, 1, 12, 0, 0, 0, time.UTC)),
	})
	ended := heldPush("bob", "* * * * * ? 2020")
	ended.DueAt = tasks.MillisOf(time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC))
	report = w.await(w.accept(ended), tasks.Failed, 1)
	requireRows(t, []row{{Status: tasks.AttemptError, ErrorType: tasks.ErrorOther, Message: "window closed, never opens again"}},
		report.Attempts, "bob")
	require.Zero(t, *report.Attempts[0].Millis)
	_, given, _ = keeper.seen()
	require.Len(t, given, 1, "another push can use the slot")
	require.Zero(t, w.simulator.Stats().Requests)
}

func TestAnInstantFixesTheFirstTryOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	w.work(workforce{})
	push := newPush("503x1-")
	push.CronExpression, push.DueAt = "0 0 10 1 1 ? *", push.CreatedAt
	requireRows(t, []row{refused(503, "Service"), okRow}, w.await(w.accept(push), tasks.Sent, 2).Attempts, "instant")
}

func TestATaskThatIsRunBeforeItIsDue(t *testing.T) {
	t.Parallel()
	for _, held := range []bool{true, false} {
		w := newWorld(t, swrvesim.Config{})
		w.work(workforce{maxAttempts: 1})
		push := newPush("ann")
		push.CronExpression, push.Held = "* * * * * ?", held
		push.DueAt = push.CreatedAt + tasks.Millis(time.Hour.Milliseconds())
		id := w.accept(push)
		w.await(id, tasks.Scheduled, 0)
		require.NoError(t, w.inspector.RunTask("swrve-window", id))
		w.awaitText("swrve-window", id, "deferred: window opens ")
		report := w.await(id, tasks.Scheduled, 0)
		require.Empty(t, report.Attempts)
		early := push.DueAt.Time().Sub(report.NextAttemptAt)
		require.LessOrEqual(t, early, time.Duration(0))
		require.Greater(t, early, -time.Second)
		require.Zero(t, w.simulator.Stats().Requests)
	}
}

func TestARetryIsHeldToTheWindowToo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	clock := &changingClock{}
	clock.Store(time.Now().Add(time.Minute)) // after the push has become due
	w.work(workforce{maxAttempts: 2, clock: clock})
	year := time.Now().Year()
	id := w.accept(heldPush("503-", fmt.Sprintf("* * * * * ? %d-%d,2041", year, year+1)))
	w.await(id, tasks.Retry, 1)
	clock.Store(wednesday(10))
	w.awaitText("swrve-window", id, "deferred: window opens 2041-01-01T00:00:00Z")
	requireRows(t, []row{refused(503, "Service")}, w.await(id, tasks.Scheduled, 1).Attempts, "503-")
	require.Len(t, w.requests("503-"), 1)
}

// changingClock shows the time that it was given last.
type changingClock struct{ atomic.Value }

func (c *changingClock) Now() time.Time { return c.Load().(time.Time) }
