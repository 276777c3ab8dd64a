package metrics

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"pushq/internal/follow"
)

var (
	followBacklog = prometheus.NewDesc("pushq_follow_backlog",
		"What became of pushes that a follower of a channel has not dealt with yet, in entries of its stream.", []string{"channel", "follower"}, nil)
	followOldest = prometheus.NewDesc("pushq_follow_oldest_seconds",
		"How long the oldest of them has waited; 0 without one.", []string{"channel", "follower"}, nil)
)

const partFollowers = "followers"

// A Follower is one of those who are told what becomes of a channel's pushes.
type Follower struct {
	Channel, Name string
	Backlog       follow.Backlog
}

// FollowFollowers adds the backlogs of followers. They are the same in every process of one
// Redis. It is called once.
func (m *Metrics) FollowFollowers(read func(context.Context) ([]Follower, error)) {
	m.scrape.errors.WithLabelValues(partFollowers)
	m.registry.MustRegister(&followerCollector{read: read, scrape: &m.scrape})
}

type followerCollector struct {
	read   func(context.Context) ([]Follower, error)
	scrape *scrape
}

func (c *followerCollector) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- followBacklog
	descriptions <- followOldest
}

func (c *followerCollector) Collect(metrics chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	c.scrape.failed(partFollowers, guarded(func() error {
		followers, err := c.read(ctx)
		if err != nil {
			return err
		}
		for _, follower := range followers {
			metrics <- gauge(followBacklog, float64(follower.Backlog.Entries), follower.Channel, follower.Name)
			metrics <- gauge(followOldest, follower.Backlog.Oldest.Seconds(), follower.Channel, follower.Name)
		}
		return nil
	}))
}
