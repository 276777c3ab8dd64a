package testenv

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

func TestSentinelsChooseAnotherMaster(t *testing.T) {
	t.Parallel()
	s := StartSentinel(t)
	require.Contains(t, s.URL(), "?master=pushes")
	for _, kill := range []bool{false, true} {
		master, replica := s.Master(), s.Replica()
		require.NotSame(t, master, replica)
		client := master.Client(t)
		require.NoError(t, client.Set(t.Context(), "key", kill, 0).Err())
		// Replication is asynchronous: what has not arrived dies with the master.
		EventuallyNoError(t, 20*time.Second, func() error {
			if got := client.Wait(t.Context(), 1, time.Second).Val(); got != 1 {
				return fmt.Errorf("%d replicas have the write", got)
			}
			return nil
		})
		if kill {
			master.Stop()
		} else {
			s.Failover()
		}
		Eventually(t, 20*time.Second, "the replica to be the master", func() bool { return s.Master() == replica })
		EventuallyNoError(t, 20*time.Second, func() error { return replica.Client(t).Set(t.Context(), "other", 1, 0).Err() })
		got, err := replica.Client(t).Get(t.Context(), "key").Bool()
		require.NoError(t, err)
		require.Equal(t, kill, got)
		if !kill {
			Eventually(t, 20*time.Second, "the old master to follow the new one", func() bool {
				return replica.Client(t).Info(t.Context(), "replication").Val() != "" && master.Client(t).Get(t.Context(), "other").Val() == "1"
			})
		}
	}
}

func TestClusterHasThreeMasters(t *testing.T) {
	t.Parallel()
	c := StartCluster(t)
	client := c.Client(t)
	used := make(chan string, 100)
	for _, key := range []string{"a", "b", "c", "d", "e", "f"} {
		require.NoError(t, client.Set(t.Context(), key, 1, 0).Err())
		node, err := client.MasterForKey(t.Context(), key)
		require.NoError(t, err)
		used <- node.Options().Addr
	}
	close(used)
	masters := map[string]bool{}
	for address := range used {
		masters[address] = true
	}
	require.Len(t, masters, 3)
	require.ErrorContains(t, redis.NewClient(&redis.Options{Addr: c.Nodes()[0].Addr()}).MGet(t.Context(), "a", "b").Err(), "CROSSSLOT")
	require.Contains(t, c.URL(), "redis-cluster://127.0.0.1:")
}
