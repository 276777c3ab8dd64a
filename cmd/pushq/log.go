package main

import (
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"
)

// newLog writes structured lines to stderr, at the level of --log-level.
func newLog(command *cobra.Command) (*slog.Logger, error) {
	text, _ := command.Flags().GetString("log-level") // the root command has it
	var level slog.Level
	if err := level.UnmarshalText([]byte(text)); err != nil {
		return nil, fmt.Errorf("--log-level %q: use debug, info, warn or error", text)
	}
	return slog.New(slog.NewTextHandler(command.ErrOrStderr(), &slog.HandlerOptions{Level: level})), nil
}
