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

// OpenDashboard prepares a client for asynq's dashboard, apart from the others, so
// that looking at pushes does not hold them up. It dials nothing before the
// first command, never repeats one (asynq's bulk actions would run twice), and
// is closed by its user.
func (c *Clients) OpenDashboard() redis.UniversalClient {
	return c.target.open(use{pool: dashboardPool, timeout: dashboardTimeout, repeats: -1, redirects: -1})
}
