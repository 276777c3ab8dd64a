package handlers_test

import (
	"testing"
	"time"

	"pushq/internal/swrvesim"
	"pushq/internal/testenv"
)

// BenchmarkDelivery delivers a backlog, from the queue to the end of each push,
// at a pace that nothing reaches. The simulated provider's work is in it.
func BenchmarkDelivery(b *testing.B) {
	w := newWorld(b, swrvesim.Config{})
	for range b.N {
		w.acceptFor("")
	}
	b.ReportAllocs()
	b.ResetTimer()
	stop := w.work(workforce{pace: 100 * time.Microsecond, quiet: true})
	testenv.Eventually(b, time.Minute, "every push to be delivered", func() bool {
		return w.simulator.Stats().Delivered == b.N
	})
	stop()
}
