package main

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"pushq/internal/fcmsim"
)

func newSimFCMCommand() *cobra.Command {
	var address, base, accountFile, project, serverKey string
	var latency, tokenLife time.Duration
	var rate int
	command := &cobra.Command{
		Use:   "fcm",
		Short: "A simulated Firebase: token endpoint, HTTP v1, legacy protocol, GET /ledger, GET /stats, DELETE /ledger",
		Long: `A simulated Firebase: POST /token, POST /v1/projects/{project}/messages:send,
POST /fcm/send, GET /ledger, GET /stats, DELETE /ledger.

It misbehaves when the token of a device (recipient) begins with one of these:
  CODE-            Firebase's error of that name. HTTP v1: INVALID_ARGUMENT-,
                   MALFORMED_TOKEN-, BAD_FIELD-, APNS_UNREGISTERED-,
                   THIRD_PARTY_AUTH_ERROR-, SENDER_ID_MISMATCH-, UNREGISTERED-,
                   QUOTA_EXCEEDED-, PROJECT_QUOTA-, DEVICE_QUOTA-, TOPIC_QUOTA- (the same,
                   and whose), INTERNAL-, UNAVAILABLE-, UNREGISTERED_ODD- (among
                   details of unexpected types). Legacy protocol: NotRegistered-,
                   Unavailable-, DeprecatedApi- and all the others
  Replaced-        legacy protocol: delivered, with another token (registration_id)
  NumericId-       legacy protocol: delivered, with a number as message_id
  NNN-             that status without a code of Firebase's: 401-, 403-, 404-
  htmlNNN-         an HTML page with that status, as in html502-
  hang-            never answers
  reset-           closes the connection without an answer
  ok-then-…        counts the message as delivered, then does one of the above
With afterS before the dash there is a Retry-After of S seconds, once; with xM only the
first M messages to that token end so: 429after2-, UNAVAILABLEx2-, resetx1-.

While it runs:
  curl -X POST 'URL/_sim/outcome?prefix=503-'   every message ends as if its token began so
  curl -X POST 'URL/_sim/outcome'               as before
  curl -X POST 'URL/_sim/token?fault=hang'      so does the token endpoint: also reset,
                                                invalid_grant, html, linebreak, NNN;
                                                &life=30s
  curl -X POST 'URL/_sim/revoke'                access tokens are not valid any more`,
		Example: `  pushq sim fcm --service-account account.json
  PUSHQ_FCM_ENABLED=true PUSHQ_FCM_URL=http://127.0.0.1:8091 PUSHQ_FCM_SERVICEACCOUNT_FILE=account.json \
    PUSHQ_TEMPLATE_URL=http://127.0.0.1:8092 PUSHQ_REDIS_URL=redis://127.0.0.1:6379/0 pushq serve`,
		Args: noArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			log, flush, err := newLog(command)
			if err != nil {
				return err
			}
			defer flush()
			if rate < 0 {
				return fmt.Errorf("--rate %d: must be 0 or more", rate)
			}
			if latency < 0 {
				return fmt.Errorf("--latency %s: must be 0 or more", latency)
			}
			if tokenLife < time.Second {
				return fmt.Errorf("--token-life %s: must be at least a second", tokenLife)
			}
			simulation := fcmsim.Config{
				Project: project, ServerKey: serverKey, Latency: latency, Rate: rate, TokenLife: tokenLife,
			}
			if accountFile != "" {
				if simulation.Key, err = fcmsim.ReadKey(accountFile); err != nil {
					return err
				}
			}
			simulator, err := fcmsim.New(simulation)
			if err != nil {
				return err
			}
			url, err := simulator.Start(address)
			if err != nil {
				return explainListen(address, err)
			}
			defer func() { _ = simulator.Close() }()
			if base == "" {
				base = url
			}
			if accountFile != "" {
				account, err := simulator.ServiceAccount(strings.TrimSuffix(base, "/"))
				if err != nil {
					return err
				}
				if err := os.WriteFile(accountFile, account, 0o600); err != nil {
					return fmt.Errorf("write the service account: %w", err)
				}
			}
			log.Info("http listening", slog.String("address", strings.TrimPrefix(url, "http://")))
			log.Info("simulating firebase", slog.String("url", base), slog.String("ledger", url+"/ledger"),
				slog.String("serviceAccount", accountFile))
			<-command.Context().Done()
			return simulator.Close()
		},
	}
	flags := command.Flags()
	flags.StringVar(&address, "listen", "127.0.0.1:8091", "address to listen on")
	flags.StringVar(&accountFile, "service-account", "", "write the key file of a service account here, for fcm.serviceAccount; if a simulator has written one already, its key is kept")
	flags.StringVar(&base, "url", "", "where others reach the simulator, for the token_uri in that file (default: where it listens)")
	flags.StringVar(&project, "project", "", "the only Firebase project there is (default: any)")
	flags.StringVar(&serverKey, "server-key", "", "the only server key of the legacy protocol (default: any)")
	flags.IntVar(&rate, "rate", 0, "messages allowed in any sliding second; more are refused as over the quota (0: no limit)")
	latency, tokenLife = 50*time.Millisecond, time.Hour
	addDuration(flags, &latency, "latency", "time to answer")
	addDuration(flags, &tokenLife, "token-life", "how long an access token is valid")
	return command
}
