package main

import (
	"log/slog"
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

// loadSettings reads the configuration as a command sees it.
func loadSettings(command *cobra.Command, requireRedis bool) (*config.Loaded, error) {
	file, _ := command.Flags().GetString("config")
	overrides := make(map[string]string)
	if listen := command.Flags().Lookup("listen"); listen != nil && listen.Changed {
		overrides["http.listen"] = listen.Value.String()
	}
	return config.Load(config.Options{File: file, Environ: os.Environ(), Overrides: overrides, RequireRedis: requireRedis})
}

func logWarnings(log *slog.Logger, loaded *config.Loaded) {
	for _, warning := range loaded.Warnings {
		log.Warn("configuration", slog.String("text", warning))
	}
}
