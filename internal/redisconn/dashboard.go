package redisconn

import (
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	dashboardPool = 4
	// dashboardTimeout is enough for an action on some 100,000 tasks.
	dashboardTimeout = 10 * time.Second
)

// OpenDashboard prepares a client for asynq's dashboard, apart from Clients, so
// that looking at pushes does not hold them up. It dials nothing before the
// first command, never repeats one, and is closed by its user.
func OpenDashboard(url string) (*redis.Client, error) {
	options, err := parse(url)
	if err != nil {
		return nil, err
	}
	options.PoolSize = dashboardPool
	options.DialTimeout = 2 * time.Second
	options.ReadTimeout, options.WriteTimeout, options.PoolTimeout = dashboardTimeout, dashboardTimeout, dashboardTimeout
	options.DialerRetries = 1
	options.MaxRetries = -1 // asynq's bulk actions would run twice
	return redis.NewClient(options), nil
}
