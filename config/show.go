package config

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// WriteShow writes one line for each setting: its key, where its value comes
// from, and the value, which is last because a map may be long. Secrets are masked; the names of callers, prototypes and platforms
// are not.
func (l *Loaded) WriteShow(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "KEY\tORIGIN\tVALUE")
	config := l.Config
	for _, setting := range settingsOf(&config) {
		value := setting.text()
		if value == "" {
			value = "(not set)"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", setting.key, l.Origins[setting.key], value)
	}
	return table.Flush()
}
