package api

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/testenv"
)

// commands are how often Redis has run each command since reset, those of
// scripts included, but not those that open connections.
func (s *testService) commands() map[string]int {
	s.t.Helper()
	text, err := s.client.Info(s.t.Context(), "commandstats").Result()
	require.NoError(s.t, err)
	counts := make(map[string]int)
	for line := range strings.Lines(text) {
		name, numbers, found := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		if !found || name == "hello" || strings.HasPrefix(name, "client|") || strings.HasPrefix(name, "config|") {
			continue
		}
		count := 0
		_, err := fmt.Sscanf(numbers, "%d,", &count)
		require.NoError(s.t, err)
		counts[name] = count
	}
	return counts
}

func TestCommandsOfAPush(t *testing.T) {
	t.Parallel()
	const pushes, callers, publishes = 640, 64, "publish"
	for name, post := range map[string]struct {
		all   func(s *testService)
		calls func(pushes int) (least, most int)
	}{
		"one after the other": {
			func(s *testService) {
				for range pushes {
					postPush(s.t, s.server.http.Handler)
				}
			},
			func(pushes int) (int, int) { return pushes, pushes },
		},
		"at the same time": {
			func(s *testService) {
				var all sync.WaitGroup
				for range callers {
					all.Go(func() {
						for range pushes / callers {
							postPush(s.t, s.server.http.Handler)
						}
					})
				}
				all.Wait()
			},
			func(pushes int) (int, int) { return pushes / callers, pushes * 3 / 4 },
		},
		"a batch": {
			func(s *testService) {
				s.items(s.postBatch(jsonType, repeated(push(), pushes)))
			},
			func(pushes int) (int, int) { return pushes / batchConcurrency, pushes * 3 / 4 },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startService(t)
			// Redis learns the script.
			testenv.Eventually(t, time.Minute, "a push to be accepted", func() bool { return s.post(push()).status == http.StatusAccepted })
			require.NoError(t, s.client.ConfigResetStat(t.Context()).Err())
			began := time.Now()
			post.all(s)
			s.closeIntake()
			counts, took := s.commands(), time.Since(began)

			require.LessOrEqual(t, counts[publishes], int(took/(10*time.Millisecond))+2, "announcements every 10 ms at most")
			delete(counts, publishes)
			calls := counts["evalsha"]
			least, most := post.calls(pushes)
			require.GreaterOrEqual(t, calls, least)
			require.LessOrEqual(t, calls, most)
			require.Equal(t, map[string]int{"evalsha": calls, "exists": calls, "hset": pushes, "lpush": calls}, counts)
		})
	}
}
