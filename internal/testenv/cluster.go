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
		c.nodes[place] = startNode(t, arguments)
		client := c.nodes[place].Client(t)
		first, last := place*slots/len(c.nodes), (place+1)*slots/len(c.nodes)-1
		c.check(client.Do(t.Context(), "CLUSTER", "ADDSLOTSRANGE", first, last).Err())
		c.check(client.Do(t.Context(), "CLUSTER", "SET-CONFIG-EPOCH", place+1).Err())
		c.meet(c.nodes[place])
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

// startNode starts a node on its own.
func startNode(t testing.TB, arguments []string) *Redis {
	t.Helper()
	return StartRedis(t, append(arguments, "--cluster-enabled", "yes", "--cluster-node-timeout", "2000")...)
}

func (c *Cluster) meet(node *Redis) {
	c.t.Helper()
	c.check(c.nodes[0].Client(c.t).Do(c.t.Context(), "CLUSTER", "MEET", "127.0.0.1", node.port, node.busPort).Err())
}

// StartReplica adds a node that takes the master's place when that dies, and
// returns when it is in sync.
func (c *Cluster) StartReplica(t testing.TB, master *Redis) *Redis {
	t.Helper()
	id, err := master.Client(t).Do(t.Context(), "CLUSTER", "MYID").Text()
	c.check(err)
	replica := startNode(t, nil)
	c.meet(replica)
	client := replica.Client(t)
	EventuallyNoError(t, 20*time.Second, func() error { return client.Do(t.Context(), "CLUSTER", "REPLICATE", id).Err() })
	Eventually(t, 20*time.Second, "the replica to be in sync", func() bool {
		return strings.Contains(client.Info(t.Context(), "replication").Val(), "master_link_status:up")
	})
	for _, node := range c.nodes {
		client := node.Client(t)
		Eventually(t, 20*time.Second, "the masters to know the replica", func() bool {
			return strings.Contains(client.ClusterNodes(t.Context()).Val(), "slave "+id)
		})
	}
	return replica
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
