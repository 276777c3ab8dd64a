package tracing

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	traceText = "4bf92f3577b34da6a3ce929d0e0e4736"
	spanText  = "00f067aa0ba902b7"
	parent    = "00-" + traceText + "-" + spanText + "-01"
)

// The rules of www.w3.org/TR/trace-context, 3.2.
func TestTraceParents(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		parent: parent,
		"00-" + traceText + "-" + spanText + "-00":     "00-" + traceText + "-" + spanText + "-00",
		"00-" + traceText + "-" + spanText + "-03":     "00-" + traceText + "-" + spanText + "-03",
		"00-" + traceText + "-" + spanText + "-ff":     "00-" + traceText + "-" + spanText + "-03", // unknown flags are not passed on
		"cc-" + traceText + "-" + spanText + "-01":     parent,                                     // of a version to come
		"01-" + traceText + "-" + spanText + "-01-x y": parent,
		"fe-" + traceText + "-" + spanText + "-01-":    parent,

		"":                      "",
		"00":                    "",
		parent[:54]:             "",
		parent + "-":            "",
		parent + "-00":          "",
		parent + "0":            "",
		" " + parent:            "",
		parent + " ":            "",
		"ff" + parent[2:]:       "",
		"0x" + parent[2:]:       "",
		"CC" + parent[2:]:       "",
		"01" + parent[2:] + "x": "",
		"00-" + strings.ToUpper(traceText) + "-" + spanText + "-01": "",
		"00-" + traceText + "-" + strings.ToUpper(spanText) + "-01": "",
		"00-" + traceText + "-" + spanText + "-0A":                  "",
		"00-" + traceText + "-" + spanText + "-0g":                  "",
		"00-" + strings.Repeat("0", 32) + "-" + spanText + "-01":    "",
		"00-" + traceText + "-" + strings.Repeat("0", 16) + "-01":   "",
		"00-" + traceText[1:] + "g-" + spanText + "-01":             "",
		"00_" + traceText + "_" + spanText + "_01":                  "",
		"00-" + traceText + "-" + spanText + "--1":                  "",
		"00-" + traceText[:31] + "-0" + spanText + "-01":            "",
		"00-" + traceText + "-" + spanText[:15] + "é-01":            "",
	} {
		got := New("", text, "")
		require.Equal(t, Trace{Parent: want}, got, "%q", text)
		name := ""
		if want != "" {
			name = traceText
		}
		require.Equal(t, name, got.Name(), "%q", text)
	}
}

func TestTraceStates(t *testing.T) {
	t.Parallel()
	long := "a=" + strings.Repeat("x", maxState-len("a="))
	many := strings.Repeat("a=1,", 33)
	for text, want := range map[string]string{
		"congo=t61rcWkgMzE":                       "congo=t61rcWkgMzE",
		"rojo=00f067aa0ba902b7,congo=t61rcWkgMzE": "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE",
		"rojo=1 , congo=2":                        "rojo=1,congo=2",
		"":                                        "",
		"hello":                                   "",
		"UPPER=1":                                 "",
		"a=1,a=2":                                 "",
		many:                                      "",
		"a=" + strings.Repeat("x", maxState):      "",
		long[:2+256]:                              long[:2+256],
		"a=\x01":                                  "",
	} {
		require.Equal(t, Trace{Parent: parent, State: want}, New("", parent, text), "%q", text)
		require.Equal(t, Trace{}, New("", "hello", text), "it goes with a parent only")
	}
}

func TestIDsOfSenders(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a3f5b9c1-2d4e-4a5f-9b2c-7e8d9f1a2b3c":   "a3f5b9c12d4e4a5f9b2c7e8d9f1a2b3c",
		"A3F5B9C1-2D4E-4A5F-9B2C-7E8D9F1A2B3C":   "a3f5b9c12d4e4a5f9b2c7e8d9f1a2b3c",
		"a3f5b9c12d4e4a5f9b2c7e8d9f1a2b3c":       "a3f5b9c12d4e4a5f9b2c7e8d9f1a2b3c",
		"00000000-0000-0000-0000-000000000000":   "",
		"a3f5b9c12-d4e-4a5f-9b2c-7e8d9f1a2b3c":   "",
		"a3f5b9c1-2d4e-4a5f-9b2c-7e8d9f1a2b3g":   "",
		"{a3f5b9c1-2d4e-4a5f-9b2c-7e8d9f1a2b3c}": "",
		"order-4711":                             "",
		"":                                       "",
	} {
		id, valid := parseID(text)
		require.Equal(t, want != "", valid, text)
		if valid {
			require.Equal(t, want, id.String())
		}
		trace := New(text, "", "")
		require.Equal(t, Trace{ID: text}, trace)
		require.Equal(t, text, trace.Name())
	}
}

func FuzzTraceParent(f *testing.F) {
	for _, text := range []string{parent, "cc-" + parent[3:] + "-x", "ff" + parent[2:], "", strings.ToUpper(parent)} {
		f.Add(text, "a=1")
	}
	f.Fuzz(func(t *testing.T, text, state string) {
		got := New("", text, state)
		require.Equal(t, got, New("", got.Parent, got.State), "what is passed on is read alike")
		if got.Parent == "" {
			require.Equal(t, Trace{}, got)
			return
		}
		require.Len(t, got.Parent, parentLength)
		require.Equal(t, text[traceStart:flagsStart], got.Parent[traceStart:flagsStart])
		require.Equal(t, text[traceStart:traceEnd], got.Name())
		require.LessOrEqual(t, len(got.State), maxState)
	})
}
