package main

import "strings"

// progressValues are what progress shows of a measurement, in this order.
var progressValues = []struct{ value, text, unit string }{
	{"used", "limit used", "%"},
	{"refused", "answers 429", ""},
	{"largest second", "largest second", ""},
	{"pushes", "pushes", "/s"},
	{"p50", "p50", "ms"},
	{"p95", "p95", "ms"},
	{"p99", "p99", "ms"},
	{"steady p99", "p99 at a steady rate", "ms"},
	{"processor", "idle worker", "% of a core"},
	{"earliest", "earliest", "s late"},
	{"latest", "p99", "s late"},
	{"bytes", "a push", "B"},
	{"megabytes", "all pushes", "MB"},
	{"accepting", "accepted within", "s"},
	{"get", "GET /push/{id} p99", "ms"},
	{"list", "GET /push p99", "ms"},
	{"first", "first sent after", "s"},
	{"thousand", "1,000 sent after", "s"},
	{"commands", "commands a push", ""},
	{"accepted", "accepted", ""},
	{"not accepted", "not accepted", ""},
	{"lost", "lost", ""},
}

// String is for progress: names, rounded values and units, then the note.
func (m measurement) String() string {
	var parts []string
	for _, shown := range progressValues {
		if value, measured := m.values[shown.value]; measured {
			parts = append(parts, strings.TrimSpace(shown.text+" "+number(value)+" "+shown.unit))
		}
	}
	if m.note != "" {
		parts = append(parts, m.note)
	}
	return strings.Join(parts, ", ")
}
