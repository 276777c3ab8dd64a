package main

import (
	"log/slog"

	"github.com/spf13/cobra"

	"pushq/internal/swrvesim"
)

func newSimCommand() *cobra.Command {
	return newGroup("sim", "Simulators of providers", newSimSwrveCommand())
}

func newSimSwrveCommand() *cobra.Command {
	var address, latencyText, keysFile string
	var rate int
	command := &cobra.Command{
		Use:   "swrve",
		Short: "A simulated Swrve: POST /push, GET /ledger, GET /stats, DELETE /ledger",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			log, err := newLog(command)
			if err != nil {
				return err
			}
			latency, err := swrvesim.ParseLatency(latencyText)
			if err != nil {
				return err
			}
			simulation := swrvesim.Config{Rate: rate, Latency: latency}
			if keysFile != "" {
				if simulation.Keys, err = swrvesim.ReadKeys(keysFile); err != nil {
					return err
				}
			}
			simulator := swrvesim.New(simulation)
			url, err := simulator.Start(address)
			if err != nil {
				return err
			}
			log.Info("http listening", slog.String("address", hostOf(url)))
			log.Info("simulating swrve", slog.String("url", url+"/push"), slog.String("ledger", url+"/ledger"))
			<-command.Context().Done()
			return simulator.Close()
		},
	}
	command.Flags().StringVar(&address, "listen", "127.0.0.1:8090", "address to listen on")
	command.Flags().IntVar(&rate, "rate", 0, "requests allowed in any sliding second; more are answered 429 (0: no limit)")
	command.Flags().StringVar(&latencyText, "latency", "50ms", "time to answer: original (as in the original load test), a duration, or 0")
	command.Flags().StringVar(&keysFile, "keys", "", "file of known push keys, one a line; others are answered 403 (default: any key)")
	return command
}
