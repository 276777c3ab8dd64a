package testenv

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Cluster is a Redis Cluster of three masters without replicas.
type Cluster struct {
	t     testing.TB
	nodes [3]*Redis
}

// StartCluster starts the nodes, gives each a third of the slots, and returns
// when all agree that the cluster is well. arguments are for every node.
func StartCluster(t testing.TB, arguments ...string) *Cluster {
	t.Helper()
	const slots = 16384
	c := &Cluster{t: t}
	for place := range c.nodes {
		// Not the usual port + 10000, which may be anybody's.
		bus, release, err := reservePort()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(release)
		c.nodes[place] = StartRedis(t, append(arguments, "--cluster-enabled", "yes", "--cluster-port", fmt.Sprint(bus), "--cluster-node-timeout", "2000")...)
		client := c.nodes[place].Client(t)
		first, last := place*slots/len(c.nodes), (place+1)*slots/len(c.nodes)-1
		c.check(client.Do(t.Context(), "CLUSTER", "ADDSLOTSRANGE", first, last).Err())
		c.check(client.Do(t.Context(), "CLUSTER", "SET-CONFIG-EPOCH", place+1).Err())
		c.check(c.nodes[0].Client(t).Do(t.Context(), "CLUSTER", "MEET", "127.0.0.1", c.nodes[place].port, bus).Err())
	}
	for _, node := range c.nodes {
		client := node.Client(t)
		EventuallyNoError(t, 20*time.Second, func() error {
			info, err := client.ClusterInfo(t.Context()).Result()
			if err != nil {
				return err
			}
			if !strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, "cluster_size:3") || !strings.Contains(info, "cluster_slots_ok:16384") {
				return fmt.Errorf("node %s sees a cluster that is not complete:\n%s", node.Addr(), info)
			}
			return nil
		})
	}
	return c
}

// URL names all nodes, as redis-cluster://…
func (c *Cluster) URL() string {
	addresses := make([]string, len(c.nodes))
	for place, node := range c.nodes {
		addresses[place] = node.Addr()
	}
	return "redis-cluster://" + strings.Join(addresses, ",")
}

// Nodes are the masters.
func (c *Cluster) Nodes() []*Redis { return c.nodes[:] }

// Client returns a new client of the cluster, closed when the test ends.
func (c *Cluster) Client(t testing.TB) *redis.ClusterClient {
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{c.nodes[0].Addr()}})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func (c *Cluster) check(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatalf("build a cluster: %v", err)
	}
}
