package config

import "strings"

// Problem is one thing that is wrong with a configuration.
type Problem struct {
	Key    string // the setting, or the unknown key; empty if a whole source cannot be read
	Source string // where its value comes from: file and line, variable, "default"; empty if unknown
	Text   string // what is wrong and what to do; never holds a secret
}

// String is the problem on one line.
func (p Problem) String() string {
	switch {
	case p.Key == "":
		return p.Source + ": " + p.Text
	case p.Source == "":
		return p.Key + " " + p.Text
	default:
		return p.Key + " (" + p.Source + ") " + p.Text
	}
}

// InvalidError is a configuration that pushq cannot start with, with everything
// that is wrong about it.
type InvalidError struct {
	Problems []Problem
	// UnknownVariables are warnings about variables that name no setting: what is missing
	// may stand in a mistyped one.
	UnknownVariables []string
}

// Error lists all problems, one on each line.
func (e *InvalidError) Error() string {
	var text strings.Builder
	text.WriteString("invalid configuration:")
	for _, problem := range e.Problems {
		text.WriteString("\n  " + problem.String())
	}
	for _, warning := range e.UnknownVariables {
		text.WriteString("\nwarning: " + warning)
	}
	return text.String()
}
