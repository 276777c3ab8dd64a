package main

import (
	"log/slog"
	"maps"
	"os"

	"github.com/spf13/cobra"

	"pushq/config"
)

// addSettingFlags adds the flags of the commands that read the configuration.
func addSettingFlags(command *cobra.Command) {
	command.Flags().String("config", "", "configuration file (default ./pushq.yaml if it exists)")
}

func addListenFlag(command *cobra.Command) {
	command.Flags().String("listen", "", "address to listen on, such as 127.0.0.1:8081 (http.listen)")
}

// loadSettings reads the configuration as a command sees it. The overrides count more than
// all that the user sets.
func loadSettings(command *cobra.Command, requireRedis bool, override map[string]string) (*config.Loaded, error) {
	file, _ := command.Flags().GetString("config")
	overrides := make(map[string]string)
	if listen := command.Flags().Lookup("listen"); listen != nil && listen.Changed {
		overrides["http.listen"] = listen.Value.String()
	}
	maps.Copy(overrides, override)
	return config.Load(config.Options{File: file, Environ: os.Environ(), Overrides: overrides, RequireRedis: requireRedis})
}

func logWarnings(log *slog.Logger, loaded *config.Loaded) {
	for _, warning := range loaded.Warnings {
		log.Warn("configuration", slog.String("text", warning))
	}
}
