package main

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"pushq/api"
	"pushq/config"
	"pushq/internal/redisconn"
	"pushq/internal/swrvesim"
	"pushq/tasks"
)

// devPrototypes are the message prototypes that dev knows without any
// configuration.
var devPrototypes = []string{"Hello", "Good bye"}

const devLatency = 50 * time.Millisecond

// devPatience is for the embedded Redis: it is never away, but on a busy laptop slow.
const devPatience = 20 * time.Second

func newDevCommand() *cobra.Command {
	var channels []string
	command := &cobra.Command{
		Use:   "dev",
		Short: "Try pushq with nothing else: embedded Redis, simulated providers, API and workers in one process",
		Long: `Try pushq with nothing else: embedded Redis, simulated providers, API and workers in one
process. It reads the configuration like the other commands, but redis.url and swrve.url
have no effect, and fcm.enabled, the address and the key of Firebase, and template.url
neither: fcm is there with --channels swrve,fcm only, and simulated. rabbitmq.url (with the
channel fcm) and history.postgresUrl are used, and must be on this host: dev would deliver
the messages of real users to a simulator.`,
		Args: noArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			for _, name := range channels {
				if name != tasks.Swrve.Name && name != tasks.FCM.Name {
					return fmt.Errorf("--channels %s: there are %s and %s", name, tasks.Swrve.Name, tasks.FCM.Name)
				}
			}
			return runDev(command, slices.Contains(channels, tasks.FCM.Name))
		},
	}
	addSettingFlags(command)
	addListenFlag(command)
	command.Flags().StringSliceVar(&channels, "channels", []string{tasks.Swrve.Name},
		"channels to try: swrve, which is always there, and fcm with a simulated Firebase and template service")
	return command
}

func runDev(command *cobra.Command, withFCM bool) error {
	log, flush, err := newLog(command)
	if err != nil {
		return err
	}
	defer flush()
	simulated, override := devFCM{}, map[string]string{"fcm.enabled": "false"}
	if withFCM {
		if simulated, err = startDevFCM(); err != nil {
			return err
		}
		defer simulated.close()
		override = simulated.settings()
	}
	loaded, err := loadSettings(command, false, override)
	if err != nil {
		return err
	}
	settings := loaded.Config
	if err := stayOnThisHost(settings); err != nil {
		return err
	}
	logWarnings(log, loaded)

	embedded, err := redisconn.StartEmbedded()
	if err != nil {
		return err
	}
	defer embedded.Close()
	simulator := swrvesim.New(swrvesim.Config{Latency: swrvesim.FixedLatency(devLatency)})
	simulatorURL, err := simulator.Start("127.0.0.1:0")
	if err != nil {
		return err
	}
	defer func() { _ = simulator.Close() }()

	settings.Swrve.URL = simulatorURL + "/push"
	settings.Dashboard.URL = "" // no proxy is in front of it
	settings.Swrve.MessagePrototypePushKeys = withDevPrototypes(settings.Swrve.MessagePrototypePushKeys)
	service := service{
		settings:  settings,
		roles:     roles{api: true, worker: true},
		redis:     redisconn.Server{URL: embedded.URL(), Patience: devPatience},
		hostClock: time.Now,
		log:       log,
		listening: func(address string) {
			printDevHelp(command.OutOrStdout(), settings, address, embedded, simulatorURL, simulated)
		},
	}
	return service.run(command.Context())
}

// withDevPrototypes adds dev's prototypes to those that are configured.
func withDevPrototypes(configured map[string]map[string]config.Secret) map[string]map[string]config.Secret {
	result := make(map[string]map[string]config.Secret)
	for _, prototype := range devPrototypes {
		result[prototype] = map[string]config.Secret{
			tasks.IOS:     config.Secret("dev-" + prototype + "-ios"),
			tasks.Android: config.Secret("dev-" + prototype + "-android"),
		}
	}
	for prototype, keys := range configured {
		result[prototype] = keys
	}
	return result
}

func printDevHelp(out io.Writer, settings config.Config, address string, embedded *redisconn.Embedded, simulatorURL string, simulated devFCM) {
	scheme, options := "http", ""
	if settings.HTTP.TLS.Cert != "" {
		scheme, options = "https", " --cacert CA"
	}
	if len(settings.HTTP.APIKeys) > 0 {
		options += " -H 'Authorization: Bearer KEY'"
	}
	fcm := "The channel fcm is off, whatever fcm.enabled says: dev --channels swrve,fcm simulates Firebase, too."
	if simulated.firebase != nil {
		fcm = "So are Firebase and the template service, whatever fcm.* and template.url say."
		defer printDevFCMHelp(out, scheme, options, address, simulated)
	}
	fmt.Fprintf(out, `pushq dev: Redis and Swrve are inside this process, whatever redis.url and swrve.url say; nothing survives a restart.
%s
%sPrototypes: Hello, Good bye, and those of swrve.messagePrototypePushKeys.

Send a push:
  curl -i%s %s://%s/push -H 'Content-Type: application/json' -d '{"platform":"IOS","messagePrototypeKey":"Hello","pushKey":"463B3209-6E33-4E88-AF52-CDA87C0550EC","message":"Hello client!"}'
See what became of it (the path is in the answer's Location):
  curl%s %s://%s/push/ID
What the simulated Swrve received:
  curl %s/ledger
The dashboard, for a browser on this host:
  %s://%s%s
Its Redis, for pushq's other commands, such as pushq pace:
  export PUSHQ_REDIS_URL=%s
and for asynq's own:
  asynq queue ls --uri %s

`, fcm, realInDev(settings), options, scheme, address, options, scheme, address, simulatorURL, scheme, address, api.DashboardPath, embedded.URL(), embedded.Address())
}
