package main

import (
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"pushq/internal/templatesim"
)

func newSimTemplatesCommand() *cobra.Command {
	var address, templatesFile string
	var latency time.Duration
	command := &cobra.Command{
		Use:   "templates",
		Short: "A simulated template service: GET /api/v1/templates/{code}?language=…, GET /ledger, GET /stats, DELETE /ledger",
		Long: `A simulated template service: GET /api/v1/templates/{code}?language=…, GET /ledger, GET /stats, DELETE /ledger.

It has welcome_notification and password_reset (en, de), order_shipped and announcement (en),
and misbehaves when a code begins with one of these, as in html-welcome_notification:
  notfound-, unavailable-   404, 503
  flaky-                    503 for every other request for this code
  NNN-                      that status: 500-, 429-, 401-, 302-
  htmlNNN-                  an HTML page with that status, as a proxy's 404: html404-
  html-, shape-, cut-       200 with an HTML page, with other JSON, with half of it
  other-                    200 with another template
  huge-                     200 with a text of 10 MiB
  unclosed-, unnamed-, nested-, undeclared-
                            a text with a faulty {{name}}, or with one that it does not declare
  slow-, hang-              answers 3 s later, or never
  reset-                    closes the connection without an answer
With xM before the dash only the first M requests for that code do: unavailablex2-.`,
		Example: `  pushq sim templates
  curl 'http://127.0.0.1:8092/api/v1/templates/welcome_notification?language=en'`,
		Args: noArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			log, flush, err := newLog(command)
			if err != nil {
				return err
			}
			defer flush()
			if latency < 0 {
				return fmt.Errorf("--latency %s: must be 0 or more", latency)
			}
			simulation := templatesim.Config{Latency: latency}
			if templatesFile != "" {
				if simulation.Templates, err = templatesim.ReadTemplates(templatesFile); err != nil {
					return err
				}
			}
			simulator := templatesim.New(simulation)
			url, err := simulator.Start(address)
			if err != nil {
				return explainListen(address, err)
			}
			log.Info("http listening", slog.String("address", strings.TrimPrefix(url, "http://")))
			log.Info("simulating the template service", slog.String("url", url), slog.String("ledger", url+"/ledger"))
			<-command.Context().Done()
			return simulator.Close()
		},
	}
	command.Flags().StringVar(&address, "listen", "127.0.0.1:8092", "address to listen on")
	latency = 10 * time.Millisecond
	addDuration(command.Flags(), &latency, "latency", "time to answer")
	command.Flags().StringVar(&templatesFile, "templates", "", "file of further templates: a list, in YAML or JSON, of answers as the one in the example")
	return command
}
