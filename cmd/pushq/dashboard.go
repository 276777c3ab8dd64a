package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/hibiken/asynqmon"
	"github.com/redis/go-redis/v9"

	"pushq/api"
	"pushq/internal/redisconn"
)

// A dashboard is asynq's own, asynqmon. Who may see it is decided in api.
type dashboard struct {
	*asynqmon.HTTPHandler
}

func openDashboard(clients *redisconn.Clients, readOnly bool) dashboard {
	return dashboard{asynqmon.New(asynqmon.Options{
		RootPath:         api.DashboardPath,
		RedisConnOpt:     dashboardConnection{clients.OpenDashboard()},
		PayloadFormatter: asynqmon.PayloadFormatterFunc(readablePayload),
		ReadOnly:         readOnly,
	})}
}

// Close closes the dashboard's connections. asynqmon does so once for each of
// the two users that it has made of the one client.
func (d dashboard) Close() error {
	if err := d.HTTPHandler.Close(); err != nil && !errors.Is(err, redis.ErrClosed) {
		return fmt.Errorf("close the dashboard: %w", err)
	}
	return nil
}

// dashboardConnection makes asynqmon use a client that has been opened.
type dashboardConnection struct {
	client redis.UniversalClient
}

// MakeRedisClient returns the client (asynq.RedisConnOpt).
func (c dashboardConnection) MakeRedisClient() any { return c.client }

// readablePayload is the JSON of the push. asynqmon by itself hides payloads
// with characters such as the joiners of emoji.
func readablePayload(_ string, payload []byte) string {
	return strings.ToValidUTF8(string(payload), "\uFFFD")
}
