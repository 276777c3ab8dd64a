package config

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

const docIntroduction = `<!-- Written by "pushq config doc" from the tags in the package config; change those instead. -->

# Configuration

Every setting is read from these places, each overriding the ones before it as a whole (a map or list is replaced, not merged):

1. its default,
2. the file ` + "`pushq.yaml`" + ` in the working directory, or the one that ` + "`--config`" + ` names,
3. its environment variable (a line break at its end is dropped, quotation marks around it are refused); or the file that the variable with ` + "`_FILE`" + ` after its name names, for mounted secrets (line breaks at its end are dropped),
4. the command line.

In the file, each part of a key before a dot is a section:

` + "```yaml" + `
swrve:
  delayMillis: 3.42
  messagePrototypePushKeys:
    Good bye:
      IOS: 00000000-0000-0000-0000-000000000000
` + "```" + `

In a variable, maps and lists are JSON: ` + "`PUSHQ_SWRVE_RETRYSTATUSES='[429,503]'`" + `. Durations are written as ` + "`90s`, `5m` or `24h`" + `.
Two settings have another variable too, the one that the push worker before pushq has for them; pushq's own counts more.
An unknown key or a key that is set twice in the file is an error, an unknown variable that starts with ` + "`PUSHQ_`" + ` a warning at start.
` + "`pushq config check`" + ` reports everything that is wrong, ` + "`pushq config show`" + ` prints each value and where it comes from, without secrets.
`

// WriteDoc writes the Markdown page that documents every setting.
func WriteDoc(w io.Writer) error {
	var page strings.Builder
	page.WriteString(docIntroduction)
	section := ""
	for _, setting := range settingsOf(new(Config)) {
		if first, _, _ := strings.Cut(setting.key, "."); first != section {
			section = first
			fmt.Fprintf(&page, "\n## %s\n\n", section)
			page.WriteString("| Key | Variable | Default | Unit | Allowed | Meaning |\n|---|---|---|---|---|---|\n")
		}
		fmt.Fprintf(&page, "| `%s` | %s | %s | %s | %s | %s |\n",
			setting.key, docVariables(setting), docDefault(setting), setting.unit, docAllowed(setting), setting.doc)
	}
	_, err := io.WriteString(w, page.String())
	return err
}

func docVariables(s setting) string {
	text := "`" + s.variable + "`"
	for _, earlier := range slices.Sorted(maps.Keys(earlierVariables)) {
		if earlierVariables[earlier] == s.key {
			text += ", `" + earlier + "`"
		}
	}
	return text
}

func docDefault(s setting) string {
	if s.defaultText == "" {
		return "none"
	}
	return "`" + s.defaultText + "`"
}

func docAllowed(s setting) string {
	switch {
	case s.min != "":
		return s.min + " to " + s.max
	case s.allowed == "":
		return typeName(s.field)
	default:
		return s.allowed
	}
}
