package main

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-systemd/v22/unit"
	"github.com/stretchr/testify/require"
)

// serviceSettings reads [Service] of a unit, without what differs on purpose.
func serviceSettings(t *testing.T, file string) map[string][]string {
	t.Helper()
	content, err := os.Open("../../deploy/" + file)
	require.NoError(t, err)
	defer func() { _ = content.Close() }()
	options, err := unit.DeserializeOptions(content)
	require.NoError(t, err)
	settings := make(map[string][]string)
	for _, option := range options {
		if option.Section == "Service" {
			settings[option.Name] = append(settings[option.Name], option.Value)
		}
	}
	return settings
}

func TestSystemdUnits(t *testing.T) {
	t.Parallel()
	const api, worker = "pushq-api.service", "pushq-worker@.service"
	for _, file := range []string{api, worker} {
		settings := serviceSettings(t, file)
		only := func(name string) string {
			require.Len(t, settings[name], 1, "%s: %s", file, name)
			return settings[name][0]
		}
		require.Equal(t, "exec", only("Type"))
		require.Equal(t, "always", only("Restart"))
		require.Equal(t, "SIGTERM", only("KillSignal"))
		require.Equal(t, "yes", only("DynamicUser"))
		require.Equal(t, "yes", only("NoNewPrivileges"))
		require.Equal(t, "strict", only("ProtectSystem"))
		stop, err := time.ParseDuration(only("TimeoutStopSec") + "s")
		require.NoError(t, err)
		require.Greater(t, stop, longestStop(t), "it would be killed while it still sends")

		credential, _, _ := strings.Cut(only("LoadCredential"), ":")
		line := strings.Fields(strings.NewReplacer("%d", "/run/credentials", "%i", "8081").Replace(only("ExecStart")))
		require.Equal(t, "/usr/local/bin/pushq", line[0])
		requireCommandLine(t, line[1:])
		require.Contains(t, line, "/run/credentials/"+credential)
		require.Equal(t, file == worker, slices.Contains(line, "127.0.0.1:8081"))
	}

	first, second := serviceSettings(t, api), serviceSettings(t, worker)
	delete(first, "ExecStart")
	delete(second, "ExecStart")
	require.Equal(t, first, second, "both are confined in the same way")
}
