package main

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/swrvesim"
	"pushq/internal/testenv"
	"pushq/tasks"
)

func TestAnUnfitRedisIsRefusedAtStart(t *testing.T) {
	t.Parallel()
	for _, unfit := range []struct {
		name      string
		arguments []string
		url       func(url string) string
		says      string
	}{
		{"evicts", []string{"--maxmemory-policy", "allkeys-lru"}, func(url string) string { return url }, "noeviction"},
		{"password", []string{"--requirepass", "right"}, func(url string) string {
			return strings.Replace(url, "redis://", "redis://:canary-wrong@", 1)
		}, "WRONGPASS"},
		{"no password", []string{"--requirepass", "right"}, func(url string) string { return url }, "NOAUTH"},
		{"database", nil, func(url string) string { return strings.TrimSuffix(url, "0") + "99" }, "DB index"},
	} {
		t.Run(unfit.name, func(t *testing.T) {
			t.Parallel()
			// Set afterwards: testenv waits for an answer without a password.
			w := newWorld(t, swrvesim.Config{})
			for place := 0; place+1 < len(unfit.arguments); place += 2 {
				name := strings.TrimPrefix(unfit.arguments[place], "--")
				require.NoError(t, w.Redis.Client(t).ConfigSet(t.Context(), name, unfit.arguments[place+1]).Err())
			}
			serve := w.start("serve", "REDIS_URL="+unfit.url(w.Redis.URL()))
			require.Equal(t, 1, serve.Wait(20*time.Second))
			printed := strings.Join(serve.Stderr(), "\n")
			require.Contains(t, printed, unfit.says)
			require.NotContains(t, printed, "canary")
		})
	}
}

func TestARedisThatBecomesUnfitGetsNoPushes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	serve := w.startReady("serve")
	client := w.Redis.Client(t)
	instant := time.Now().UTC().Add(24 * time.Hour).Format(`"cronExpression":"5 4 15 2 1 ? 2006"`) // second minute hour day month year
	waiting := accept(t, serve, "waiting", instant)
	cancel := func() error {
		_, err := execute("push", "cancel", waiting, "--server", serve.URL())
		return err
	}
	require.NoError(t, client.ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru").Err())
	testenv.Eventually(t, 20*time.Second, "pushes to be refused", func() bool {
		status, _, _ := post(t, serve, pushBody("user"))
		return status == http.StatusServiceUnavailable
	})
	require.ErrorContains(t, cancel(), "(503)")
	_, err := execute("push", "retry", waiting, "--server", serve.URL())
	require.ErrorContains(t, err, "(503)")
	require.Equal(t, tasks.Scheduled, lookUp(t, serve, waiting).Status)
	require.NoError(t, client.ConfigSet(t.Context(), "maxmemory-policy", "noeviction").Err())
	serve.WaitReady()
	waitFor(t, serve, accept(t, serve, "later"), tasks.Sent, 20*time.Second)
	require.NoError(t, cancel())
}
