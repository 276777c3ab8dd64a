package metrics

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"pushq/internal/redisconn"
	"pushq/tasks"
)

const (
	// scrapeTimeout is how long a scrape waits for Redis.
	scrapeTimeout   = 800 * time.Millisecond
	warningInterval = time.Minute
)

var (
	queueTasks = prometheus.NewDesc("pushq_queue_tasks",
		"Pushes in a queue, by asynq's state.", []string{"queue", "state"}, nil)
	queueOldest = prometheus.NewDesc("pushq_queue_oldest_seconds",
		"How long the oldest push of a queue has been due and no worker has taken it; 0 if none is due.", []string{"queue"}, nil)
	queuePaused = prometheus.NewDesc("pushq_queue_paused",
		"1 while somebody has paused the queue.", []string{"queue"}, nil)
	activeWithoutLease = prometheus.NewDesc("pushq_active_without_lease",
		"Active pushes without a lease, which no worker holds and nothing gives back.", []string{"queue"}, nil)
	memoryUsed = prometheus.NewDesc("pushq_redis_memory_bytes",
		"Memory that counts against Redis' maxmemory; of a cluster, that of its fullest master.", nil, nil)
	memoryMax = prometheus.NewDesc("pushq_redis_memory_max_bytes",
		"maxmemory of that server, 0 without a limit.", nil, nil)
)

// A Store is what a scrape asks of Redis. Both calls end with the context.
type Store struct {
	// Queues returns what could be read, and why the rest could not be.
	Queues func(context.Context) ([]tasks.QueueStats, error)
	// Memory returns redisconn.ErrUntold if Redis does not tell it.
	Memory func(context.Context) (redisconn.Memory, error)
}

// FollowStore adds the gauges of the queues and of Redis' memory. They are the
// same in every process of one Redis.
func (m *Metrics) FollowStore(store Store) {
	for _, part := range []string{partQueues, partMemory} {
		m.scrape.errors.WithLabelValues(part)
	}
	m.registry.MustRegister(&storeCollector{Store: store, scrape: &m.scrape})
}

const (
	partQueues = "queues"
	partMemory = "memory"
)

type storeCollector struct {
	Store
	scrape *scrape
}

func (c *storeCollector) Describe(descriptions chan<- *prometheus.Desc) {
	for _, description := range []*prometheus.Desc{queueTasks, queueOldest, queuePaused, activeWithoutLease, memoryUsed, memoryMax} {
		descriptions <- description
	}
}

func (c *storeCollector) Collect(metrics chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	c.scrape.failed(partQueues, guarded(func() error { return c.collectQueues(ctx, metrics) }))
	c.scrape.failed(partMemory, guarded(func() error { return c.collectMemory(ctx, metrics) }))
}

func (c *storeCollector) collectQueues(ctx context.Context, metrics chan<- prometheus.Metric) error {
	queues, err := c.Queues(ctx)
	for _, queue := range queues {
		for state, count := range queue.Tasks {
			metrics <- gauge(queueTasks, float64(count), queue.Queue, state.String())
		}
		metrics <- gauge(queuePaused, oneIf(queue.Paused), queue.Queue)
		metrics <- gauge(queueOldest, queue.Oldest.Seconds(), queue.Queue)
		metrics <- gauge(activeWithoutLease, float64(queue.ActiveWithoutLease), queue.Queue)
	}
	return err
}

func (c *storeCollector) collectMemory(ctx context.Context, metrics chan<- prometheus.Metric) error {
	memory, err := c.Memory(ctx)
	if errors.Is(err, redisconn.ErrUntold) {
		return nil
	}
	if err != nil {
		return err
	}
	metrics <- gauge(memoryUsed, float64(memory.Used))
	metrics <- gauge(memoryMax, float64(memory.Max))
	return nil
}

func gauge(description *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(description, prometheus.GaugeValue, value, labels...)
}

func oneIf(condition bool) float64 {
	if condition {
		return 1
	}
	return 0
}

// guarded turns a panic into an error: a collector runs in a goroutine of the
// registry, where a panic would end the process.
func guarded(collect func() error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v", cause)
		}
	}()
	return collect()
}
