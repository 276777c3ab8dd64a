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
}

// FollowFollowers adds the backlogs of followers, which read returns in the same order.
// They are the same in every process of one Redis. It is called once.
func (m *Metrics) FollowFollowers(followers []Follower, read func(context.Context) ([]follow.Backlog, error)) {
	m.scrape.errors.WithLabelValues(partFollowers)
	m.registry.MustRegister(&followerCollector{followers: followers, read: read, scrape: &m.scrape})
}

type followerCollector struct {
	followers []Follower
	read      func(context.Context) ([]follow.Backlog, error)
	scrape    *scrape
}

func (c *followerCollector) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- followBacklog
	descriptions <- followOldest
}

func (c *followerCollector) Collect(metrics chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	c.scrape.failed(partFollowers, guarded(func() error {
		backlogs, err := c.read(ctx)
		if err != nil {
			return err
		}
		for place, follower := range c.followers {
			metrics <- gauge(followBacklog, float64(backlogs[place].Entries), follower.Channel, follower.Name)
			metrics <- gauge(followOldest, backlogs[place].Oldest.Seconds(), follower.Channel, follower.Name)
		}
		return nil
	}))
}
