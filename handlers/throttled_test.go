package handlers_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/breaker"
	"pushq/internal/swrvesim"
	"pushq/tasks"
)

// Where the good answers are counted, a push that is answered 429 comes after those that it
// has held up, and holds up nobody if it gets another one.
func TestA429ThatComesAgainIsAboutOnePush(t *testing.T) {
	t.Parallel()
	const pause = 2 * time.Second
	w := newWorld(t, swrvesim.Config{})
	w.work(workforce{maxAttempts: 3, breaker: w.guard(func(*breaker.Options) {})})
	throttled := w.acceptFor("429after2x2-")
	report := w.await(throttled, tasks.Retry, 1)
	require.GreaterOrEqual(t, report.NextAttemptAt.Sub(report.Attempts[0].StartedAt.Time()), pause*3/2)
	w.await(w.acceptFor("ann"), tasks.Sent, 1)
	report = w.await(throttled, tasks.Sent, 3)
	requireRows(t, []row{refused(429, "Rate Limit Exceeded"), refused(429, "Rate Limit Exceeded"), okRow}, report.Attempts, "429after2x2-")
	require.GreaterOrEqual(t, report.Attempts[2].StartedAt.Time().Sub(report.Attempts[1].StartedAt.Time()), pause, "it waits itself")

	ann, first := w.requests("ann")[0], w.requests("429after2x2-")[0]
	require.GreaterOrEqual(t, ann.MonotonicMicros-first.MonotonicMicros, pause.Microseconds(), "the first one is about everybody")
	alone, err := w.clients.Read.HGet(t.Context(), tasks.Swrve.PaceKey(), "in_a_row").Int()
	require.NoError(t, err)
	require.Equal(t, 1, alone)
	require.Contains(t, w.log.String(), "the provider asks everybody to wait")
}
