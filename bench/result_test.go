package main

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/swrvesim"
)

func measured(values ...float64) []measurement {
	var all []measurement
	for _, value := range values {
		all = append(all, measurement{values: map[string]float64{"value": value, "refused": value - 1}})
	}
	return all
}

func TestJudge(t *testing.T) {
	t.Parallel()
	baseline := contender{name: "baseline"}
	for _, example := range []struct {
		name            string
		pushq, baseline []measurement
		promise         promise
		verdict         verdict
	}{
		{"the median counts", measured(1, 120, 130), measured(100), promise{rule: atLeastTimes(1.2)}, holds},
		{"too little", measured(119), measured(100), promise{rule: atLeastTimes(1.2)}, fails},
		{"no worse", measured(100), measured(100), promise{rule: atMostTimes(1)}, holds},
		{"worse", measured(101), measured(100), promise{rule: atMostTimes(1)}, fails},
		{"limits", measured(97), nil, promise{rule: atLeast(97)}, unavailable},
		{"never", measured(1, 1, 1), measured(1), promise{rule: atLeast(1), never: "refused"}, holds},
		{"once is not never", measured(1, 1, 2), measured(1), promise{rule: atLeast(1), never: "refused"}, fails},
		{"no rule", measured(1), measured(1), promise{}, shownOnly},
		{"nothing measured", nil, measured(1), promise{rule: atLeast(1)}, unavailable},
		{"nothing measured, nothing promised", nil, measured(1), promise{}, shownOnly},
	} {
		r := rounds{map[string][]measurement{"pushq": example.pushq, "baseline": example.baseline}, map[string]string{}}
		example.promise.value = "value"
		require.Equal(t, example.verdict, (&bench{judges: true}).judge(r, example.promise, baseline).Verdict, example.name)
	}
	alone := rounds{map[string][]measurement{"pushq": measured(97)}, nil}
	require.Equal(t, holds, (&bench{judges: true}).judge(alone, promise{value: "value", rule: atLeast(97)}, contender{}).Verdict)
	require.Equal(t, notJudged, (&bench{}).judge(alone, promise{value: "value", rule: atLeast(98)}, contender{}).Verdict)
}

func TestTable(t *testing.T) {
	t.Parallel()
	ours := samples{Contender: "pushq", Values: []float64{300, 100, 240}, Notes: []string{"a", "b", "c"}}
	results := []result{
		{Promise: "fast", Unit: "/s", Pushq: ours, Baseline: &samples{Contender: "other", Values: []float64{100, 100, 200}}, Verdict: holds},
		{Promise: "fast", Unit: "/s", Pushq: ours, Baseline: &samples{Contender: "third", Missing: "not installed"}, Verdict: shownOnly},
		{Promise: "small", Pushq: samples{Contender: "pushq", Values: []float64{0.0123}}, Verdict: fails},
	}
	var table bytes.Buffer
	require.NoError(t, report{Facts: []fact{{"machine", "small"}}, Results: results, Notes: []string{"One note."}}.writeMarkdown(&table))
	require.Equal(t, `- machine: small

| promise | pushq | baseline | ratio | spread | verdict |
|---|---|---|---|---|---|
| fast | 240 /s (c) | other: 100 /s | 2.40 x | 1.00–3.00 | holds |
|  |  | third: not measured |  | 100–300 | shown only |
| small | 0.0123 |  |  |  | does not hold |

One note.
`, table.String())

	encoded, err := json.Marshal(results[1])
	require.NoError(t, err)
	require.JSONEq(t, `{"comparison":"","promise":"fast","unit":"/s","verdict":"shown only",
		"pushq":{"contender":"pushq","values":[300,100,240],"notes":["a","b","c"],"median":240},
		"baseline":{"contender":"third","values":null,"missing":"not installed","median":null}}`, string(encoded))
}

func TestNumber(t *testing.T) {
	t.Parallel()
	for value, text := range map[float64]string{0: "0", 12345.6: "12346", 123.45: "123", 12.345: "12.3", 1.2345: "1.23", 0.012345: "0.0123", -2.5: "-2.50"} {
		require.Equal(t, text, number(value))
	}
}

func TestSteadyCountsDeliveriesOfItsTimeOnly(t *testing.T) {
	t.Parallel()
	var requests []swrvesim.Request
	for millis := int64(500); millis < 5500; millis += 10 {
		requests = append(requests, swrvesim.Request{MonotonicMicros: millis * 1000, Delivered: millis%20 == 0})
	}
	require.Equal(t, 100, steady(requests, time.Second, 2*time.Second))
}

func TestInstant(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 28, 10, 5, 7, 0, time.FixedZone("", 3600))
	require.Equal(t, "7 5 9 28 11 ?", instant(at))
}

// Nothing can start without a directory, which is why every line that is judged
// says that it is not available.
func TestThroughputsAreJudgedAgainstTunedAsynqAndLatenciesAgainstItsDefaults(t *testing.T) {
	t.Parallel()
	b := &bench{directory: "/nowhere", sizes: fullSizes, judges: true, progress: func(string, ...any) {}}
	judged := make(map[string][]string)
	for _, c := range comparisons {
		for _, line := range c.run(b) {
			if line.Verdict == shownOnly {
				continue
			}
			require.Equal(t, unavailable, line.Verdict, line.Promise)
			baseline := "none"
			if line.Baseline != nil {
				baseline = line.Baseline.Contender
			}
			judged[c.name] = append(judged[c.name], baseline)
		}
	}
	const asIs, tuned, none = "asynq", "asynq, tuned", "none"
	require.Equal(t, map[string][]string{
		"rate": {tuned, tuned, tuned}, "rate-latency": {tuned, tuned, tuned},
		"accept": {tuned, asIs, asIs}, "batch": {tuned},
		"drain": {tuned}, "drain-latency": {tuned},
		"idle": {asIs, asIs}, "herd": {tuned}, "window": {asIs, none},
		"memory": {asIs}, "million": {none, none}, "commands": {tuned},
	}, judged)
}
