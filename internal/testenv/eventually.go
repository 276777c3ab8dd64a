package testenv

import (
	"errors"
	"testing"
	"time"
)

// busyMachine is what every wait lasts longer than its caller says. He says how long
// something may take on a machine at rest; there may be other programs.
const busyMachine = 2 * time.Minute

// Eventually waits until condition is true and ends the test, naming what was
// waited for, if that takes longer than timeout, and as long again as a busy
// machine may need. The condition runs in the caller's goroutine, at once and
// then every 5 to 20 ms, and once more after the timeout, so a condition that
// was slow to compute is not judged unseen.
func Eventually(t testing.TB, timeout time.Duration, what string, condition func() bool) {
	t.Helper()
	eventually(t, timeout+busyMachine, what, condition)
}

func eventually(t testing.TB, timeout time.Duration, what string, condition func() bool) {
	t.Helper()
	if !poll(timeout, condition) {
		t.Fatalf("waited %s in vain for: %s", timeout, what)
	}
}

// EventuallyNoError waits like [Eventually] until check returns nil and ends
// the test with check's last error if that takes too long.
func EventuallyNoError(t testing.TB, timeout time.Duration, check func() error) {
	t.Helper()
	eventuallyNoError(t, timeout+busyMachine, check)
}

func eventuallyNoError(t testing.TB, timeout time.Duration, check func() error) {
	t.Helper()
	err := errors.New("not checked")
	if !poll(timeout, func() bool { err = check(); return err == nil }) {
		t.Fatalf("after %s still: %v", timeout, err)
	}
}

func poll(timeout time.Duration, condition func() bool) bool {
	const shortestTick, longestTick = 5 * time.Millisecond, 20 * time.Millisecond
	deadline := time.Now().Add(timeout)
	for tick := shortestTick; time.Now().Before(deadline); tick = min(tick+time.Millisecond, longestTick) {
		if condition() {
			return true
		}
		time.Sleep(min(tick, time.Until(deadline)))
	}
	return condition()
}
