package testenv

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Sentinel is a master with a replica, watched by three sentinels of which two
// must agree, all on this host. Sentinels take a master that does not answer
// for a second for dead.
type Sentinel struct {
	t         testing.TB
	servers   [2]*Redis
	sentinels [3]*Redis
}

const sentinelMaster = "pushes"

// StartSentinel starts everything and returns when the replica is in sync and
// the sentinels know of it and of each other. arguments are for both servers.
func StartSentinel(t testing.TB, arguments ...string) *Sentinel {
	t.Helper()
	s := &Sentinel{t: t}
	s.servers[0] = StartRedis(t, append(arguments, "--repl-diskless-sync-delay", "0")...)
	s.servers[1] = StartRedis(t, append(arguments, "--replicaof", "127.0.0.1 "+fmt.Sprint(s.servers[0].port), "--repl-diskless-sync-delay", "0")...)
	// Sentinels ask a master for its replicas at once, and then every ten seconds.
	replica := s.servers[1].Client(t)
	Eventually(t, 20*time.Second, "the replica to be in sync", func() bool {
		info, err := replica.Info(t.Context(), "replication").Result()
		return err == nil && strings.Contains(info, "master_link_status:up")
	})
	for place := range s.sentinels {
		file := filepath.Join(t.TempDir(), "sentinel.conf")
		configuration := fmt.Sprintf("sentinel monitor %[1]s 127.0.0.1 %[2]d 2\nsentinel down-after-milliseconds %[1]s 1000\nsentinel failover-timeout %[1]s 10000\n",
			sentinelMaster, s.servers[0].port)
		if err := os.WriteFile(file, []byte(configuration), 0o600); err != nil {
			t.Fatal(err)
		}
		s.sentinels[place] = startRedis(t, reservePort, file, []string{"--sentinel"})
	}
	for _, sentinel := range s.sentinels {
		client := sentinelClient(t, sentinel)
		EventuallyNoError(t, 20*time.Second, func() error {
			master, err := client.Master(t.Context(), sentinelMaster).Result()
			if err != nil {
				return err
			}
			if master["flags"] != "master" || master["num-slaves"] != "1" || master["num-other-sentinels"] != "2" {
				return fmt.Errorf("sentinel %s sees a master that is %q with %s replicas and %s other sentinels",
					sentinel.Addr(), master["flags"], master["num-slaves"], master["num-other-sentinels"])
			}
			return nil
		})
	}
	return s
}

// URL names all sentinels, as redis-sentinel://…
func (s *Sentinel) URL() string {
	addresses := make([]string, len(s.sentinels))
	for place, sentinel := range s.sentinels {
		addresses[place] = sentinel.Addr()
	}
	return "redis-sentinel://" + strings.Join(addresses, ",") + "/0?master=" + sentinelMaster
}

// Master is the server that the sentinels take for the master.
func (s *Sentinel) Master() *Redis {
	s.t.Helper()
	address, err := sentinelClient(s.t, s.sentinels[0]).GetMasterAddrByName(s.t.Context(), sentinelMaster).Result()
	if err != nil {
		s.t.Fatalf("ask sentinel %s for the master: %v", s.sentinels[0].Addr(), err)
	}
	for _, server := range s.servers {
		if fmt.Sprint(server.port) == address[1] {
			return server
		}
	}
	s.t.Fatalf("sentinel %s names %s as the master, which is no server of this test", s.sentinels[0].Addr(), address)
	return nil
}

// Replica is the other one.
func (s *Sentinel) Replica() *Redis {
	s.t.Helper()
	if s.Master() == s.servers[0] {
		return s.servers[1]
	}
	return s.servers[0]
}

// Failover makes the replica the master, while both are well.
func (s *Sentinel) Failover() {
	s.t.Helper()
	if err := sentinelClient(s.t, s.sentinels[0]).Failover(s.t.Context(), sentinelMaster).Err(); err != nil {
		s.t.Fatalf("ask sentinel %s for a failover: %v", s.sentinels[0].Addr(), err)
	}
}

func sentinelClient(t testing.TB, sentinel *Redis) *redis.SentinelClient {
	client := redis.NewSentinelClient(&redis.Options{Addr: sentinel.Addr()})
	t.Cleanup(func() { _ = client.Close() })
	return client
}
