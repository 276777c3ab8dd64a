package faults

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/swrvesim"
)

// Redis is killed and started again under load, again and again at full length.
//
// With `always` each write is on the disk before its answer. With `everysec` it
// has only been given to the kernel, which writes it within about a second: the
// death of the process alone loses nothing, that of the machine would lose the
// last moment.
func TestKilledRedis(t *testing.T) {
	t.Parallel()
	for _, policy := range []struct {
		fsync   string
		mayLose time.Duration
	}{
		{"everysec", 2 * time.Second},
		{"always", 0},
	} {
		t.Run(policy.fsync, func(t *testing.T) {
			t.Parallel()
			const interval = 10 * time.Millisecond
			w := newWorld(t, swrvesim.Config{Latency: swrvesim.FixedLatency(500 * time.Millisecond)},
				"--appendonly", "yes", "--appendfsync", policy.fsync)
			api := w.start("api")
			worker := w.start("worker")
			callers := newCallers(t)
			stop := callers.postEvery(interval, api.URL())
			var kills []time.Time
			for range int(length(1, 5)) {
				time.Sleep(3 * time.Second) // the load goes on
				kills = append(kills, time.Now())
				w.Redis.Stop()
				time.Sleep(length(time.Second, 5*time.Second))
				w.Redis.Start()
				api.WaitReady()
				worker.WaitReady()
			}
			restarted := time.Now()
			time.Sleep(2 * time.Second)
			stop()

			w.waitUntilEnded(callers, api, recoveryTimeout)
			account := w.count(callers, api)
			require.Equal(t, account.accepted, account.sent+len(account.lost))
			require.Positive(t, account.refused, "the kill was noticed")
			require.True(t, acceptedAfter(callers, restarted), "pushes are accepted again without a restart")
			for _, lost := range account.lost {
				require.True(t, shortlyBefore(kills, lost.answered, policy.mayLose), "%s is lost", lost.id)
			}
			// The worker lives, and keeps its outcomes until they are written. Only
			// where Redis forgets some is anything sent again.
			require.LessOrEqual(t, account.duplicates, len(kills)*int(policy.mayLose/interval))
		})
	}
}

func acceptedAfter(c *callers, instant time.Time) bool {
	for _, posting := range c.accepted() {
		if posting.posted.After(instant) {
			return true
		}
	}
	return false
}

// shortlyBefore tells whether an instant is not more than a time before one of
// the kills. An answer on its way then is read a little later.
func shortlyBefore(kills []time.Time, instant time.Time, longest time.Duration) bool {
	const onItsWay = 200 * time.Millisecond
	for _, kill := range kills {
		if before := kill.Sub(instant); before < longest && before > -onItsWay {
			return true
		}
	}
	return false
}
