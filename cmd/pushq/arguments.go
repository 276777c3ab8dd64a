package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// noArguments is for a command that has flags only.
func noArguments(command *cobra.Command, arguments []string) error {
	if len(arguments) == 0 {
		return nil
	}
	return fmt.Errorf("%q is too much: %s takes only flags, see %[2]s --help", arguments[0], command.CommandPath())
}

// oneArgument is for a command that needs just the one of that name.
func oneArgument(name string) cobra.PositionalArgs {
	return func(command *cobra.Command, arguments []string) error {
		if len(arguments) == 0 {
			return fmt.Errorf("name the %[1]s: %[2]s %[1]s", name, command.CommandPath())
		}
		return atMostOneArgument(command, arguments)
	}
}

func atMostOneArgument(command *cobra.Command, arguments []string) error {
	if len(arguments) > 1 {
		return fmt.Errorf("%q is too much: write %s", arguments[1], command.UseLine())
	}
	return nil
}

// oneOrMoreArguments is for a command that puts its arguments together.
func oneOrMoreArguments(name string) cobra.PositionalArgs {
	return func(command *cobra.Command, arguments []string) error {
		if len(arguments) == 0 {
			return fmt.Errorf("name the %s, in quotes: %s '%[1]s'", name, command.CommandPath())
		}
		return nil
	}
}

// atMostOneFlag refuses flags that exclude each other.
func atMostOneFlag(command *cobra.Command, names ...string) error {
	if given := givenFlags(command, names...); len(given) > 1 {
		return fmt.Errorf("write only one of %s", strings.Join(given, " and "))
	}
	return nil
}

// givenFlags are those of the names that the command line has, as they are written.
func givenFlags(command *cobra.Command, names ...string) (given []string) {
	for _, name := range names {
		if command.Flags().Changed(name) {
			given = append(given, "--"+name)
		}
	}
	return given
}

// missingFlags are those of the names that the command line does not have, as they are written.
func missingFlags(command *cobra.Command, names ...string) (missing []string) {
	for _, name := range names {
		if !slices.Contains(givenFlags(command, names...), "--"+name) {
			missing = append(missing, "--"+name)
		}
	}
	return missing
}

// plainFlagError says what to write instead of a flag that cannot be read.
func plainFlagError(command *cobra.Command, err error) error {
	see := "see " + command.CommandPath() + " --help"
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		name := "--" + unknown.GetSpecifiedName()
		if short := unknown.GetSpecifiedShortnames(); short != "" {
			name = "-" + short
		}
		return fmt.Errorf("%s has no flag %s: %s", command.CommandPath(), name, see)
	}
	if empty, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		return fmt.Errorf("write a value after --%s: %s", empty.GetFlag().Name, see)
	}
	if wrong, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		flag := wrong.GetFlag()
		switch flag.Value.Type() {
		case "int":
			return fmt.Errorf("--%s %q: write a whole number", flag.Name, wrong.GetValue())
		case "bool":
			return fmt.Errorf("--%s=%s: write --%[1]s, or --%[1]s=false", flag.Name, wrong.GetValue())
		default:
			return fmt.Errorf("--%s %q: %w", flag.Name, wrong.GetValue(), wrong.Unwrap())
		}
	}
	return err
}
