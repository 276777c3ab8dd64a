package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/config"
	"pushq/internal/swrvesim"
	"pushq/internal/testenv"
	"pushq/tasks"
)

// execute runs a command in this process.
func execute(arguments ...string) (output string, err error) {
	root := newRootCommand()
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetArgs(arguments)
	err = root.ExecuteContext(context.Background())
	return out.String(), err
}

func TestEveryCommandHasHelp(t *testing.T) {
	t.Parallel()
	for _, command := range []string{
		"", "dev", "serve", "api", "worker", "sim", "sim swrve", "sim fcm", "sim templates", "push", "push send", "push get", "push list", "push count", "push retry", "push cancel",
		"history", "history search",
		"pause", "resume", "pace", "doctor",
		"window", "health", "load", "config", "config check", "config show", "config doc", "version",
	} {
		output, err := execute(append(strings.Fields(command), "--help")...)
		require.NoError(t, err, command)
		require.Contains(t, output, "Usage:", command)
	}
}

func TestWindowCommand(t *testing.T) {
	t.Parallel()
	for _, example := range []struct {
		arguments []string
		contains  []string
	}{
		{[]string{"* * 9-17 ? * MON-FRI", "--zone", "Europe/Stockholm", "--at", "2026-11-27T09:00:00Z"}, []string{
			"reads as  window (Quartz)", "open      yes, closes Fri 2026-11-27 18:00:00 +0100",
			"Mon 2026-11-30 09:00:00 +0100, closes Mon 2026-11-30 18:00:00 +0100",
		}},
		{[]string{"0 0 10 * * ?", "--at", "2026-11-27T09:00:00Z"}, []string{
			"reads as  instants (Quartz)", "open      no", "Fri 2026-11-27 10:00:00 +0000\n", "Tue 2026-12-01 10:00:00 +0000\n",
		}},
		{[]string{"* 9-17 * * 1-5", "--at", "2026-11-28T09:00:00Z"}, []string{
			"reads as  window (Unix cron)", "open      no", "Mon 2026-11-30 09:00:00 +0000, closes",
		}},
		{[]string{"0", "0", "10", "*", "*", "?", "--at", "2026-11-27T09:00:00Z"}, []string{"reads as  instants (Quartz)", "Fri 2026-11-27 10:00:00 +0000\n"}},
		{[]string{"* * * * * ?"}, []string{"open      yes, stays open for more than 400 days"}},
	} {
		output, err := execute(append([]string{"window"}, example.arguments...)...)
		require.NoError(t, err)
		for _, text := range example.contains {
			require.Contains(t, output, text)
		}
	}
}

func TestMistakesOnTheCommandLine(t *testing.T) {
	t.Parallel()
	for _, mistake := range []struct {
		arguments []string
		says      string
	}{
		{[]string{"window", "* *"}, "the cron expression has 2 fields"},
		{[]string{"window", "0 0 10 * * ?", "--zone", "Mars/Olympus"}, "--zone"},
		{[]string{"window", "0 0 10 * * ?", "--at", "tomorrow"}, "--at"},
		{[]string{"window"}, "name the EXPRESSION, in quotes: pushq window 'EXPRESSION'"},
		{[]string{"push", "get"}, "name the ID: pushq push get ID"},
		{[]string{"push", "get", "A", "B"}, `"B" is too much: write pushq push get ID`},
		{[]string{"push", "retry", "A", "B"}, `"B" is too much: write pushq push retry ID | --status STATUS`},
		{[]string{"serve", "now"}, `"now" is too much: pushq serve takes only flags`},
		{[]string{"serve", "--color"}, "pushq serve has no flag --color: see pushq serve --help"},
		{[]string{"serve", "-x"}, "pushq serve has no flag -x"},
		{[]string{"push", "list", "--status"}, "write a value after --status"},
		{[]string{"push", "list"}, "name a state: --status with one of [SCHEDULED"},
		{[]string{"push", "list", "--json=maybe"}, "--json=maybe: write --json, or --json=false"},
		{[]string{"window", "Makefile", "go.mod", "9-17", "?", "go.sum", "MON-FRI"}, "Write the expression in quotes: a shell puts the names of files"},
		{[]string{"push", "send", "--platform", "IOS", "--cron", "*", "*", "9-17"}, `"*" belongs to no flag: write values with blanks, * or ? in quotes`},
		{[]string{"push", "list", "--status", "SENT", "--since", "3"}, "such as 90m, 2h or 3d"},
		{[]string{"load", "--wait", "5"}, "5 of what? Write a unit: 5s, 5m, 5h or 5d"},
		{[]string{"serve"}, "redis.url"},
		{[]string{"serve", "--config", "/does/not/exist.yaml"}, "/does/not/exist.yaml"},
		{[]string{"dev", "--log-level", "loud"}, "--log-level"},
		{[]string{"sim", "swrve", "--latency", "soon"}, "latency"},
		{[]string{"sim", "swrve", "--keys", "/does/not/exist"}, "/does/not/exist"},
		{[]string{"sim", "templates", "--latency", "-1s"}, "--latency"},
		{[]string{"sim", "templates", "--templates", "/does/not/exist"}, "/does/not/exist"},
		{[]string{"sim", "fcm", "--latency", "-1s"}, "latency"},
		{[]string{"sim", "fcm", "--token-life", "0s"}, "token-life"},
		{[]string{"sim", "fcm", "--service-account", "/does/not/exist/account.json", "--listen", "127.0.0.1:0"}, "/does/not/exist"},
		{[]string{"push", "get", "X", "--server", "nowhere"}, "--server"},
		{[]string{"push", "list", "--status", "SENT", "--limit", "0"}, "--limit"},
		{[]string{"load", "--server", "http://192.0.2.1"}, "--yes"},
		{[]string{"load", "--server", "nowhere"}, "--server"},
		{[]string{"load", "--threads", "0"}, "--threads"},
		{[]string{"load", "--pushes", "0"}, "--pushes"},
		{[]string{"load", "--wait", "-1s"}, "--wait"},
		{[]string{"health", "--server", "nowhere"}, "--server"},
		{[]string{"health", "--ready", "--live"}, "write only one of --ready and --live"},
		{[]string{"health", "--server", "http://127.0.0.1:1", "--local"}, "write only one of --server and --local"},
		{[]string{"health", "--server", "http://127.0.0.1:1"}, "Is pushq running there?"},
		{[]string{"health", "--details", "--server", "http://127.0.0.1:1"}, "Is pushq running there?"},
		{[]string{"push", "send"}, "write --platform, --prototype, --push-key and --message for one push, or --batch FILE for many"},
		{[]string{"push", "send", "--platform", "IOS"}, "--prototype, --push-key, --message missing"},
		{[]string{"push", "send", "--batch", "-", "--cron", "0 0 9 * * ?"}, "--batch stands without --cron"},
		{[]string{"push", "send", "--batch", "/does/not/exist"}, "/does/not/exist"},
		{[]string{"push", "retry"}, "either one ID or"},
		{[]string{"push", "cancel", "ID", "--status", "PENDING"}, "either one ID or"},
		{[]string{"push", "retry", "ID", "--since", "2h"}, "either one ID or"},
		{[]string{"push", "retry", "--since", "2h"}, "either one ID or"},
		{[]string{"push", "retry", "--status", "FAILED", "--since", "yesterday"}, "--since"},
		{[]string{"no-such-command"}, "no-such-command"},
	} {
		output, err := execute(mistake.arguments...)
		require.Error(t, err, mistake.arguments)
		require.Contains(t, output+err.Error(), mistake.says, mistake.arguments)
	}
}

func TestPushCommands(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	const key = "key-of-the-tests-0123"
	serve := w.startReady("serve", `HTTP_APIKEYS={"tests":"`+key+`"}`)
	call := func(arguments ...string) (string, error) {
		return execute(append(append([]string{"push"}, arguments...), "--server", serve.URL(), "--key", key)...)
	}
	send := func(user string, more ...string) string {
		output, err := call(append([]string{"send", "--platform", "IOS", "--prototype", "Hello", "--push-key", user, "--message", "<b>&\" é"}, more...)...)
		require.NoError(t, err)
		return strings.TrimSpace(output)
	}
	id := send("user")
	require.Len(t, id, 26)
	testenv.Eventually(t, 20*time.Second, "the push to be SENT", func() bool {
		output, err := call("get", id)
		return err == nil && strings.Contains(output, `"status": "SENT"`)
	})
	require.Equal(t, "<b>&\" é", w.Swrve.Ledger()[0].Message)

	first, second := send("user", "--idempotency-key", "one"), send("user", "--idempotency-key", "one")
	require.Equal(t, first, second)

	failed := send("400-user")
	testenv.Eventually(t, 20*time.Second, "the push to be listed as FAILED", func() bool {
		output, err := call("list", "--status", string(tasks.Failed))
		return err == nil && strings.Contains(output, failed) && strings.Contains(output, "SWRVE 400")
	})
	output, err := call("list", "--status", string(tasks.Failed), "--json")
	require.NoError(t, err)
	require.Contains(t, output, `"id":"`+failed+`"`)

	_, err = call("get", "01ARZ3NDEKTSV4RRFFQ69G5FAV")
	require.ErrorContains(t, err, "Not found (404)")
	_, err = call("list", "--status", "sent")
	require.ErrorContains(t, err, "status must be one of")
	_, err = execute("push", "get", id, "--server", serve.URL())
	require.ErrorContains(t, err, "PUSHQ_KEY")
	_, err = execute("push", "get", id, "--server", "http://"+testenv.FreeAddress(t))
	require.ErrorContains(t, err, "Is pushq running there?")
}

func TestConfigCommands(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "pushq.yaml")
	require.NoError(t, os.WriteFile(file, []byte(`
redis: {url: "redis://user:canary-redis-password@localhost:6379/0"}
swrve:
  delayMillis: 3.42
  messagePrototypePushKeys:
    Hello: {IOS: canary-push-key}
`), 0o600))
	output, err := execute("config", "check", "--config", file)
	require.NoError(t, err)
	require.Contains(t, output, "valid")
	output, err = execute("config", "show", "--config", file)
	require.NoError(t, err)
	require.Contains(t, output, "3.42")
	require.NotContains(t, output, "canary")

	require.NoError(t, os.WriteFile(file, []byte("swrve: {delayMilis: 3}\n"), 0o600))
	_, err = execute("config", "check", "--config", file)
	require.ErrorContains(t, err, "swrve.delayMillis")
}

func TestConfigurationPageIsUpToDate(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/configuration.md")
	require.NoError(t, err)
	var current bytes.Buffer
	require.NoError(t, config.WriteDoc(&current))
	require.Equal(t, current.String(), string(page), "run: make docs")
}

func TestVersion(t *testing.T) {
	t.Parallel()
	output, err := execute("version")
	require.NoError(t, err)
	require.Contains(t, output, "pushq "+version)
}
