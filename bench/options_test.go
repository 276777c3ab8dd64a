package main

import (
	"bytes"
	"flag"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOptions(t *testing.T) {
	t.Parallel()
	for _, example := range []struct {
		arguments []string
		failure   string // of an error, "" for none
	}{
		{[]string{}, ""},
		{[]string{"--quick", "--json", "--only", "drain,rate"}, ""},
		{[]string{"--only", "memory,"}, ""},
		{[]string{"--only", " memory, drain"}, ""},
		{[]string{"--soak", "15m", "--soak", "40s"}, ""},
		{[]string{"--soak", "40s", "--markdown", "--quick"}, ""},
		{[]string{"--profile", "prof"}, ""},
		{[]string{"memory", "--quick"}, `unexpected "memory": did you mean --only memory?`},
		{[]string{"--quick", "memory,drain"}, `unexpected "memory,drain": did you mean --only memory,drain?`},
		{[]string{"--quick", "fast"}, `unexpected "fast": see --help`},
		{[]string{"--quik"}, "flag provided but not defined: -quik: see --help"},
		{[]string{"--only", "drian"}, "--only drian: there is no comparison of that name, see --list"},
		{[]string{"--only", ","}, "--only: name at least one comparison, see --list"},
		{[]string{"--only="}, "--only: name at least one comparison, see --list"},
		{[]string{"--json", "--markdown"}, "--json and --markdown: choose one"},
		{[]string{"--profile", "prof", "--only", "drain"}, "--profile runs Go benchmarks and no comparison: it takes no other flag"},
		{[]string{"--profile="}, "--profile: name a directory"},
		{[]string{"--soak", "1m", "--only", "drain"}, "--soak is no comparison: leave --only out"},
		{[]string{"--soak", "-1m"}, "--soak -1m0s: it takes at least 10s"},
	} {
		_, err := parseOptions(example.arguments, io.Discard)
		if example.failure == "" {
			require.NoError(t, err, example.arguments)
		} else {
			require.EqualError(t, err, example.failure, example.arguments)
		}
	}
}

func TestOptionsChoose(t *testing.T) {
	t.Parallel()
	o, err := parseOptions([]string{"--only", "drain,rate,"}, io.Discard)
	require.NoError(t, err)
	require.Len(t, o.chosen, 2)
	require.Equal(t, []string{"drain", "rate"}, []string{o.chosen[0].name, o.chosen[1].name})
	o, err = parseOptions([]string{"--soak", "15m", "--soak", "40s"}, io.Discard)
	require.NoError(t, err)
	require.True(t, o.soaking)
	require.Equal(t, 40*time.Second, o.soak)
	o, err = parseOptions(nil, io.Discard)
	require.NoError(t, err)
	require.Len(t, o.chosen, len(comparisons))
}

func TestHelpNamesTheCommand(t *testing.T) {
	t.Parallel()
	var help bytes.Buffer
	_, err := parseOptions([]string{"--help"}, &help)
	require.ErrorIs(t, err, flag.ErrHelp)
	require.Contains(t, help.String(), "Usage: make bench ARGS='[flags]'")
	require.Contains(t, help.String(), "-only names")
}
