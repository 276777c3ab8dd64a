package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/config"
	"pushq/internal/swrvesim"
	"pushq/internal/testenv"
)

func TestOwnServer(t *testing.T) {
	t.Parallel()
	for listen, want := range map[string]string{
		"127.0.0.1:8080":        "http://127.0.0.1:8080",
		"0.0.0.0:8080":          "http://127.0.0.1:8080",
		":8080":                 "http://127.0.0.1:8080",
		"[::]:8080":             "http://[::1]:8080",
		"10.0.0.1:80":           "http://10.0.0.1:80",
		"localhost.example:443": "http://localhost.example:443",
	} {
		got, err := ownServer(config.HTTP{Listen: listen})
		require.NoError(t, err)
		require.Equal(t, want, got, listen)
	}
	_, err := ownServer(config.HTTP{Listen: "127.0.0.1:0"})
	require.ErrorContains(t, err, "--server")
}

func TestHealthCommand(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	address := testenv.FreeAddress(t)
	var environment []string
	health := func(arguments ...string) (code int, printed []string) {
		process := testenv.StartPushq(t, append([]string{"health"}, arguments...), append(environment, "PUSHQ_HTTP_LISTEN="+address)...)
		code = process.Wait(healthTimeout + 20*time.Second)
		return code, append(process.Stdout(), process.Stderr()...)
	}
	code, printed := health()
	require.Equal(t, 1, code, "nobody listens")
	require.Contains(t, printed[0], "refused")

	serve := testenv.StartPushq(t, []string{"serve"}, append(w.Environment(nil...), "PUSHQ_HTTP_LISTEN="+address)...)
	serve.WaitReady()
	for _, arguments := range [][]string{nil, {"--ready"}} {
		code, printed = health(arguments...)
		require.Zero(t, code)
		require.Equal(t, []string{"http://" + address + ": ready"}, printed)
	}
	// PUSHQ_SERVER is another one, as for the commands that call the API.
	other := w.startReady("api")
	environment = []string{"PUSHQ_SERVER=" + other.URL()}
	code, printed = health()
	require.Zero(t, code)
	require.Equal(t, []string{other.URL() + ": ready"}, printed)
	code, printed = health("--details")
	require.Zero(t, code)
	require.Contains(t, printed, other.URL()+": healthy")
	code, printed = health("--local")
	require.Zero(t, code)
	require.Equal(t, []string{"http://" + address + ": ready"}, printed, "what the image's check asks")
	code, printed = health("--server", serve.URL())
	require.Zero(t, code)
	require.Equal(t, []string{serve.URL() + ": ready"}, printed)
	environment = nil

	w.Redis.Stop()
	code, printed = health("--server", serve.URL())
	require.Equal(t, 1, code)
	require.Contains(t, printed[0], "503")
	code, printed = health("--live")
	require.Zero(t, code)
	require.Equal(t, []string{"http://" + address + ": live"}, printed)

	serve.Freeze()
	code, _ = health("--live")
	require.Equal(t, 1, code, "it does not wait for ever")
	serve.Thaw()
}
