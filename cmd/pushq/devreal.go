package main

import (
	"errors"

	"pushq/config"
	"pushq/internal/history"
	"pushq/internal/rabbitmq"
)

// stayOnThisHost refuses the real services that dev would do harm to: a file of production
// may lie beside it.
func stayOnThisHost(settings config.Config) error {
	if takesMessages(settings) && !rabbitmq.IsOnThisHost(settings.RabbitMQ.URL.Reveal()) {
		return errors.New("rabbitmq.url names a RabbitMQ that is not on this host: dev would take the messages of its queue " +
			"and give them to a simulated Firebase, and they would be gone. Unset it (for this command only: PUSHQ_RABBITMQ_URL=), or use one on this host")
	}
	if url := settings.History.PostgresURL; url != "" && !history.IsOnThisHost(url.Reveal()) {
		return errors.New("history.postgresUrl names a PostgreSQL that is not on this host: dev would write pushes into its history that " +
			"were only simulated. Unset it (for this command only: PUSHQ_HISTORY_POSTGRESURL=), or use one on this host")
	}
	return nil
}

func takesMessages(settings config.Config) bool {
	return settings.FCM.Enabled && settings.RabbitMQ.URL != ""
}

// realInDev names what dev uses as it is configured: a line for each.
func realInDev(settings config.Config) (lines string) {
	if takesMessages(settings) {
		lines += "Real is the RabbitMQ of rabbitmq.url: messages are taken from " + settings.RabbitMQ.Queue + ", and go to the simulated Firebase.\n"
	}
	if settings.History.PostgresURL != "" {
		lines += "Real is the PostgreSQL of history.postgresUrl: the history of all pushes is written there.\n"
	}
	if settings.Tracing.OTLPEndpoint != "" {
		lines += "Real is the collector of tracing.otlpEndpoint: the spans of all pushes go there.\n"
	}
	return lines
}
