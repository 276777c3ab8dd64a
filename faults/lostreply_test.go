package faults

import (
	"crypto/sha1"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/keytype"
	"pushq/internal/swrvesim"
	"pushq/internal/testenv"
	"pushq/tasks"
)

// Redis has stored a push, and the connection is cut before it says so.
func TestRepliesToEnqueuesAreLost(t *testing.T) {
	t.Parallel()
	for _, posted := range []struct {
		name      string
		insistent bool
	}{
		{"once", false},
		{"repeated with its key", true},
	} {
		t.Run(posted.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, swrvesim.Config{Latency: swrvesim.FixedLatency(50 * time.Millisecond)})
			w.start("worker", "SWRVE_DELAYMILLIS=8")
			proxy := testenv.NewProxy(t, w.Redis.Addr())
			w.RedisURL = proxy.URL()
			api := w.start("api")
			callers := newCallers(t)
			callers.insistent = posted.insistent
			stop := callers.postEvery(10*time.Millisecond, api.URL())
			// Of what an accepting process sends, only the enqueue has this key.
			cut := cutReplies(t, proxy, "asynq:{swrve}:pending", 1)
			stop()

			w.waitUntilEnded(callers, api, recoveryTimeout)
			account := w.reckon(callers, api)
			require.Equal(t, account.accepted, account.sent)
			require.Zero(t, account.duplicates)
			deliveries := w.Deliveries()
			if posted.insistent {
				require.GreaterOrEqual(t, callers.repeated(), cut)
				require.Zero(t, account.unknown)
				require.Len(t, deliveries, account.accepted)
				return
			}
			require.GreaterOrEqual(t, account.unknown, cut, "each caller whose answer was lost is told so")
			require.GreaterOrEqual(t, len(deliveries), account.accepted+cut, "what was stored is sent, whatever the caller knows")
		})
	}
}

// Redis has recorded the beginning or the end of an attempt, and the connection
// is cut before it says so: up to ten times in a row, which is more often than
// the client repeats a command.
func TestRepliesToAttemptsAreLost(t *testing.T) {
	t.Parallel()
	for script, files := range map[string][]string{
		"begin":  {"record.lua", "begin.lua"},
		"finish": {"record.lua", "complete.lua", "finish.lua"},
	} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			const inARow = 10
			w := newWorld(t, swrvesim.Config{Latency: swrvesim.FixedLatency(200 * time.Millisecond)})
			api := w.start("api")
			proxy := testenv.NewProxy(t, w.Redis.Addr())
			w.RedisURL = proxy.URL()
			w.start("worker", "SWRVE_DELAYMILLIS=8")
			w.start("worker", "SWRVE_DELAYMILLIS=8")
			callers := newCallers(t)
			stop := callers.postEvery(20*time.Millisecond, api.URL())
			cutReplies(t, proxy, scriptHash(t, files...), inARow)
			stop()

			w.waitUntilEnded(callers, api, recoveryTimeout)
			account := w.reckon(callers, api)
			require.Equal(t, account.accepted, account.sent)
			require.Len(t, w.Swrve.Ledger(), account.accepted, "one request for each push")
			for id, push := range account.pushes {
				last := push.Attempts[len(push.Attempts)-1]
				require.Equal(t, tasks.AttemptOK, last.Status, id)
				for _, attempt := range push.Attempts {
					require.False(t, attempt.MaybeDelivered, id)
				}
			}
		})
	}
}

// cutReplies loses the replies to the requests with a marker, so many of them
// one after the other, and again and again for some time. It returns how many
// were lost.
func cutReplies(t *testing.T, proxy *testenv.Proxy, marker string, inARow int) int {
	t.Helper()
	const pause = 300 * time.Millisecond
	cut := 0
	for end := time.Now().Add(length(6*time.Second, time.Minute)); time.Now().Before(end); time.Sleep(pause) {
		cut += inARow
		proxy.CutReplyTo(marker, inARow)
		testenv.Eventually(t, 10*time.Second, "the replies to be lost", func() bool { return proxy.Cut() == cut })
	}
	t.Logf("%d replies lost", cut)
	return cut
}

// scriptHash is how Redis calls the script that is put together from keytype.lua and files
// of the package tasks.
func scriptHash(t *testing.T, files ...string) string {
	t.Helper()
	source := []byte(keytype.Source)
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join("..", "tasks", "scripts", file))
		require.NoError(t, err)
		source = append(source, text...)
	}
	return fmt.Sprintf("%x", sha1.Sum(source))
}
