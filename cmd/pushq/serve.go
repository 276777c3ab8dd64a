package main

import (
	"log/slog"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"pushq/config"
	"pushq/internal/certificates"
	"pushq/internal/redisconn"
)

func newServeCommand() *cobra.Command {
	return serviceCommand("serve", "Accept pushes and deliver them: the API and the workers in one process", roles{api: true, worker: true})
}

func newAPICommand() *cobra.Command {
	return serviceCommand("api", "Accept pushes only", roles{api: true})
}

func newWorkerCommand() *cobra.Command {
	return serviceCommand("worker", "Deliver pushes only; health and metrics are served on http.listen", roles{worker: true})
}

func serviceCommand(use, short string, roles roles) *cobra.Command {
	var clockShift, clockShiftAfter time.Duration
	command := &cobra.Command{
		Use:   use,
		Short: short,
		Args:  noArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			log, flush, err := newLog(command)
			if err != nil {
				return err
			}
			defer flush()
			loaded, err := loadSettings(command, true, nil)
			if err != nil {
				return err
			}
			logWarnings(log, loaded)
			service := service{
				settings:    loaded.Config,
				roles:       roles,
				redis:       redisServer(loaded.Config.Redis, log),
				checkServer: true,
				hostClock:   shiftedClock(clockShift, clockShiftAfter),
				log:         log,
			}
			room := makeRoomForGarbage()
			defer runtime.KeepAlive(room)
			return service.run(command.Context())
		},
	}
	addSettingFlags(command)
	addListenFlag(command)
	command.Flags().DurationVar(&clockShift, "test-clock-shift", 0, "for tests: how far this host's clock seems to be off")
	command.Flags().DurationVar(&clockShiftAfter, "test-clock-shift-after", 0, "for tests: how long the clock is right before")
	_ = command.Flags().MarkHidden("test-clock-shift")
	_ = command.Flags().MarkHidden("test-clock-shift-after")
	return command
}

func shiftedClock(shift, after time.Duration) func() time.Time {
	started := time.Now()
	return func() time.Time {
		if time.Since(started) < after {
			return time.Now()
		}
		return time.Now().Add(shift)
	}
}

func redisServer(settings config.Redis, log *slog.Logger) redisconn.Server {
	return redisconn.Server{
		URL:              settings.URL.Reveal(),
		SentinelUser:     settings.SentinelUser,
		SentinelPassword: settings.SentinelPassword.Reveal(),
		TLS:              certificates.Files(settings.TLS),
		MaxConnectionAge: settings.MaxConnectionAge,
		Log:              log,
	}
}
