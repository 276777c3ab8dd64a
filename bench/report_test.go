package main

import (
	"bytes"
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPlainTableShowsTheMachineAndTheNotes(t *testing.T) {
	t.Parallel()
	r := report{
		Facts:   []fact{{factPushq, "abc"}, {"kernel", "Linux"}, {factProcessor, "2 x small"}, {factLoad, "0.10 0.20 0.30"}},
		Results: []result{{Promise: "small", Pushq: samples{Contender: "pushq", Values: []float64{1}}, Verdict: holds}},
		Notes:   []string{"One note."},
	}
	var text bytes.Buffer
	require.NoError(t, r.writeTable(&text))
	require.Equal(t, `pushq abc, 2 x small, load before: 0.10 0.20 0.30

promise  pushq  baseline  ratio  spread  verdict
small    1.00                            holds

One note.
`, text.String())
}

func TestReportHasNotesInJSON(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	require.NoError(t, report{Facts: []fact{{"a", "b"}}, Notes: []string{"One note."}}.writeJSON(&text))
	var decoded report
	require.NoError(t, json.Unmarshal(text.Bytes(), &decoded))
	require.Equal(t, []string{"One note."}, decoded.Notes)
}

func TestBusyMachine(t *testing.T) {
	t.Parallel()
	require.Contains(t, busyNote("1.31 0.28 0.86"), "load 1.31 0.28 0.86")
	for _, quiet := range []string{"1.00 3.00 3.00", "0.02 0.00 0.00", "none"} {
		require.Empty(t, busyNote(quiet), quiet)
	}
}

func TestInterruptedRunHasWhatHadFinished(t *testing.T) {
	t.Parallel()
	interrupted, interrupt := context.WithCancel(t.Context())
	never := make(chan struct{})
	defer close(never)
	chosen := []comparison{
		{"one", "", func(*bench) []result { return []result{{Promise: "a"}, {Promise: "b"}} }},
		{"two", "", func(*bench) []result { interrupt(); <-never; return nil }},
		{"three", "", func(*bench) []result { return []result{{Promise: "c"}} }},
	}
	b := &bench{progress: func(string, ...any) {}}
	require.Equal(t, finished{1, []result{{Comparison: "one", Promise: "a"}, {Comparison: "one", Promise: "b"}}}, b.runAll(interrupted, chosen))

	chosen = append(chosen[:1:1], chosen[2])
	require.Equal(t, 2, b.runAll(t.Context(), chosen).comparisons)
}

func TestProgressHasNamesAndUnitsInOrder(t *testing.T) {
	t.Parallel()
	m := measurement{values: map[string]float64{"largest second": 263, "refused": 0, "used": 97.6543, "unheard of": 1}, note: "a note"}
	require.Equal(t, "limit used 97.7 %, answers 429 0, largest second 263, a note", m.String())
}
