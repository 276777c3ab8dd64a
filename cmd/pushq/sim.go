package main

import (
	"fmt"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"pushq/internal/swrvesim"
)

func newSimCommand() *cobra.Command {
	return newGroup("sim", "Simulators of providers and of the template service",
		newSimSwrveCommand(),
		newSimFCMCommand(),
		newSimTemplatesCommand(),
	)
}

func newSimSwrveCommand() *cobra.Command {
	var address, latencyText, keysFile string
	var rate int
	command := &cobra.Command{
		Use:   "swrve",
		Short: "A simulated Swrve: POST /push, GET /ledger, GET /stats, DELETE /ledger",
		Long: `A simulated Swrve: POST /push, GET /ledger, GET /stats, DELETE /ledger.

It misbehaves when the user of a push (pushKey) begins with one of these:
  NNN-             answers with that status: 503-, 400-, 403-, 429-, 302-
  NNNafterS-       the same, once, with Retry-After: S, as in 429after2-
  htmlNNN-         an HTML page with that status, as in html502-
  errorNNN-        that status with {"error":…} instead of code and message: error200-
  cutNNN-          that status with JSON that breaks off, as in cut200-
  emptyNNN-        that status without a body, as in empty200-
  bodyNNN-         HTTP 200 with that code in the body, as in body400-
  textNNN-         the same with the code as a text: {"code":"500",…}
  echoNNN-         that status with the request's fields in the message, as in echo400-
  hang-            never answers
  reset-           closes the connection without an answer
  ok-then-reset-   counts the push as delivered, then does so
With xM before the dash only the first M requests of that user do: 500x2-, resetx1-.`,
		Args: noArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			log, flush, err := newLog(command)
			if err != nil {
				return err
			}
			defer flush()
			latency, err := swrvesim.ParseLatency(latencyText)
			if err != nil {
				return err
			}
			if rate < 0 {
				return fmt.Errorf("--rate %d: must be 0 or more", rate)
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
				return explainListen(address, err)
			}
			log.Info("http listening", slog.String("address", strings.TrimPrefix(url, "http://")))
			log.Info("simulating swrve", slog.String("url", url+"/push"), slog.String("ledger", url+"/ledger"))
			<-command.Context().Done()
			return simulator.Close()
		},
	}
	command.Flags().StringVar(&address, "listen", "127.0.0.1:8090", "address to listen on")
	command.Flags().IntVar(&rate, "rate", 0, "requests allowed in any sliding second; more are answered 429 (0: no limit)")
	command.Flags().StringVar(&latencyText, "latency", "50ms", "time to answer: original (as in the original load test), original*0.1, a duration, or 0")
	command.Flags().StringVar(&keysFile, "keys", "", "file of known push keys, one a line; others are answered 403 (default: any key)")
	return command
}
