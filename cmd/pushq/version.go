package main

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the linker for releases.
var version = "dev"

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version and what it was built with",
		Args:  noArguments,
		Run: func(command *cobra.Command, _ []string) {
			out := command.OutOrStdout()
			fmt.Fprintln(out, "pushq", version)
			info, ok := debug.ReadBuildInfo()
			if !ok {
				return
			}
			fmt.Fprintln(out, info.GoVersion)
			for _, dependency := range info.Deps {
				switch dependency.Path {
				case "github.com/hibiken/asynq", "github.com/redis/go-redis/v9", "github.com/labstack/echo/v4":
					fmt.Fprintln(out, dependency.Path, dependency.Version)
				}
			}
		},
	}
}
