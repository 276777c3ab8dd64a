package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"pushq/config"
)

func newConfigCommand() *cobra.Command {
	check := &cobra.Command{
		Use:   "check",
		Short: "Check every setting, without connecting to anything",
		Args:  noArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			loaded, err := loadSettings(command, true, nil)
			if err != nil {
				return err
			}
			for _, warning := range loaded.Warnings {
				fmt.Fprintln(command.OutOrStdout(), "warning:", warning)
			}
			fmt.Fprintln(command.OutOrStdout(), "the configuration is valid")
			return nil
		},
	}
	show := &cobra.Command{
		Use:   "show",
		Short: "Print every setting, its value and where that came from; secrets are masked",
		Args:  noArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			loaded, err := loadSettings(command, false, nil)
			if err != nil {
				return err
			}
			return loaded.WriteShow(command.OutOrStdout())
		},
	}
	doc := &cobra.Command{
		Use:   "doc",
		Short: "Print the documentation of every setting as Markdown",
		Args:  noArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			return config.WriteDoc(command.OutOrStdout())
		},
	}
	addSettingFlags(check)
	addSettingFlags(show)
	return newGroup("config", "Check, show and document the configuration", check, show, doc)
}
