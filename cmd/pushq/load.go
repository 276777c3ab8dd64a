package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"pushq/internal/load"
	"pushq/internal/loopback"
)

const numberPlaceholder = "{n}"

func newLoadCommand() *cobra.Command {
	var options load.Options
	var push struct {
		Platform            string `json:"platform"`
		MessagePrototypeKey string `json:"messagePrototypeKey"`
		PushKey             string `json:"pushKey"`
		Message             string `json:"message"`
	}
	var yes, asJSON bool
	command := &cobra.Command{
		Use:   "load",
		Short: "Really send many pushes, and print the latency table of the original load test",
		Long: `Really send many pushes, and print the latency table of the original load test.

WARNING: every push is a real one for the pushq that it is posted to. If that is configured with real push keys, real
devices show them. Try it against pushq dev, or pushq serve with pushq sim swrve. Servers on other hosts need --yes.

It posts from --threads callers at a time as fast as pushq answers, waits until all pushes have ended, and reads their
attempts back. Receiving is the time of an accepted POST as its caller sees it; provider is the time of a request to
the provider as the worker recorded it, from every attempt that reached the provider or may have. Percentiles are exact:
the least sample that at least so many percent of the samples do not exceed (nearest rank). The fullest second is any
second, by the recorded start times, which are known to the millisecond.

Ctrl-C prints what has been measured so far. The exit code is 1 if the run is not complete, or nothing was accepted.

The original test had 20 threads with 10,000 pushes each: --threads 20 --pushes 200000`,
		Example: `  pushq load --threads 20 --pushes 10000`,
		Args:    noArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			client, err := newPushClient(command)
			if err != nil {
				return err
			}
			options.Server, options.Key = client.server, client.key
			if err := checkLoad(options, yes); err != nil {
				return err
			}
			template := push
			options.Body = func(number int) []byte {
				push := template
				push.PushKey = strings.ReplaceAll(template.PushKey, numberPlaceholder, strconv.Itoa(number))
				body, _ := json.Marshal(push) // texts always can be
				return body
			}
			encryption, err := client.encryption()
			if err != nil {
				return err
			}
			transport := http.DefaultTransport.(*http.Transport).Clone()
			transport.TLSClientConfig = encryption
			transport.MaxIdleConnsPerHost = options.Threads
			transport.MaxIdleConns = options.Threads
			options.Client = &http.Client{Timeout: clientTimeout, Transport: transport}
			defer transport.CloseIdleConnections()
			return runLoad(command, options, asJSON)
		},
	}
	addServerFlags(command.Flags())
	flags := command.Flags()
	flags.IntVar(&options.Threads, "threads", 20, "callers that post at a time, 1 to 1000")
	flags.IntVar(&options.Pushes, "pushes", 10000, "pushes of all threads together")
	flags.StringVar(&push.Platform, "platform", "IOS", "IOS or ANDROID")
	flags.StringVar(&push.MessagePrototypeKey, "prototype", "Hello", "message prototype (messagePrototypeKey)")
	flags.StringVar(&push.PushKey, "push-key", "load-"+numberPlaceholder, "the user at the provider (pushKey); "+numberPlaceholder+" becomes the number of the push")
	flags.StringVar(&push.Message, "message", "Hello client!", "text of the push")
	options.Wait = 10 * time.Minute
	addDuration(flags, &options.Wait, "wait", "how long to wait for all pushes to end, after the last one was posted; 0 measures receiving only")
	flags.BoolVar(&asJSON, "json", false, "print one JSON object")
	flags.BoolVar(&yes, "yes", false, "really do it to a server on another host")
	return command
}

func checkLoad(options load.Options, yes bool) error {
	if options.Threads < 1 || options.Threads > 1000 {
		return fmt.Errorf("--threads %d: must be from 1 to 1000", options.Threads)
	}
	if options.Pushes < 1 {
		return fmt.Errorf("--pushes %d: must be at least 1", options.Pushes)
	}
	if options.Wait < 0 {
		return fmt.Errorf("--wait %s: must be 0 or more", options.Wait)
	}
	server, err := parseServer(options.Server)
	if err != nil {
		return err
	}
	if !yes && !loopback.Is(server.Hostname()) {
		return fmt.Errorf("%s is on another host, and load really sends %d pushes there: add --yes if that is what you want", options.Server, options.Pushes)
	}
	return nil
}

func runLoad(command *cobra.Command, options load.Options, asJSON bool) error {
	progress := newLoadProgress(command.ErrOrStderr())
	options.Progress = progress
	report, runErr := load.Run(command.Context(), options)
	progress.end()
	if asJSON {
		if err := json.NewEncoder(command.OutOrStdout()).Encode(report); err != nil {
			return fmt.Errorf("print the report: %w", err)
		}
	} else {
		report.WriteTable(command.OutOrStdout())
	}
	if runErr == nil && report.Accepted == 0 {
		return errors.New("nothing was accepted")
	}
	return runErr
}
