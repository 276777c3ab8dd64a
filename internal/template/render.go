package template

import (
	"fmt"
	"strings"
)

const (
	opening = "{{"
	ending  = "}}"
)

// render replaces each {{name}} of the text, with or without blanks around the name, by
// the variable's value. Values are put in as they are: what looks like a variable in them
// stays, and nothing is escaped. There is nothing else in the language. Names that are
// not among the variables are missing, as often as the text has them.
func render(text string, variables map[string]string) (rendered string, missing []string, err error) {
	var result strings.Builder
	for rest := text; ; {
		before, after, found := strings.Cut(rest, opening)
		result.WriteString(before)
		if !found {
			return result.String(), missing, nil
		}
		at := len(text) - len(after) - len(opening)
		name, after, found := strings.Cut(after, ending)
		if !found {
			return "", nil, fmt.Errorf("%s at byte %d has no %s", opening, at, ending)
		}
		name = strings.Trim(name, " ")
		if name == "" || strings.ContainsAny(name, "{}") {
			return "", nil, fmt.Errorf("%s at byte %d: %.40q cannot be the name of a variable", opening, at, name)
		}
		value, given := variables[name]
		if !given {
			missing = append(missing, name)
		}
		result.WriteString(value)
		if result.Len() > maxText {
			return "", nil, fmt.Errorf("with its variables it has more than %d bytes", maxText)
		}
		rest = after
	}
}

// A MissingError names the variables that a template asks for and nobody has given.
type MissingError struct {
	Names []string // sorted, each once
}

func (e *MissingError) Error() string {
	const enough = 10
	shown := make([]string, 0, enough)
	for _, name := range e.Names[:min(len(e.Names), enough)] {
		shown = append(shown, fmt.Sprintf("%.40q", name))
	}
	text := "it needs variables that the message does not have: " + strings.Join(shown, ", ")
	if more := len(e.Names) - enough; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
