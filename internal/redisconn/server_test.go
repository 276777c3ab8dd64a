package redisconn

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"pushq/internal/certificates"
	"pushq/internal/testenv"
)

func TestErrorsShowNoPassword(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"redis://u:hush@h:x", "redis://u:hush%zz@h", "redis://u:1#hush@h", "redis://hush@h", "redis://h/hush", "redis-socket:///r?hush", "http://:hush@h",
		"redis-sentinel://:hush@a,b", "redis-cluster://a,b/hush",
	} {
		_, err := Open(url, 0)
		require.Error(t, err, url)
		require.NotContains(t, err.Error(), "hush")
	}
}

func TestOpenReachesTheServer(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "r.sock")
	server := testenv.StartRedis(t, "--unixsocket", socket, "--user", "someone", "on", ">p@ss", "~*", "+@all")
	ctx := t.Context()
	require.NoError(t, server.Client(t).Set(ctx, "database", "0", 0).Err())
	for number, url := range map[string]string{
		"0": server.URL(),
		"3": "redis://someone:p%40ss@" + server.Addr() + "/3",
		"4": "redis-socket://someone:p%40ss@" + socket + "?db=4",
		"5": "redis-socket://" + socket + "?db=5",
	} {
		clients := open(t, url)
		require.NoError(t, clients.Control.Set(ctx, "database", number, 0).Err())
		// All clients are at the same database.
		for name, client := range clients.each() {
			got, err := client.Get(ctx, "database").Result()
			require.NoError(t, err, "%s over %s", name, url)
			require.Equal(t, number, got, "%s over %s", name, url)
		}
	}
	wrong := open(t, "redis://someone:wrong@"+server.Addr())
	require.ErrorContains(t, wrong.Read.Ping(ctx).Err(), "WRONGPASS")
}

// The clients follow the master that the sentinels choose.
func TestOpenFollowsTheMaster(t *testing.T) {
	t.Parallel()
	world := testenv.StartSentinel(t)
	clients, err := Server{URL: strings.Replace(world.URL(), "/0", "/2", 1)}.Open(8)
	require.NoError(t, err)
	t.Cleanup(func() { _ = clients.Close() })
	for name, client := range clients.each() {
		require.NoError(t, client.Set(t.Context(), name, 1, 0).Err(), name)
	}
	warnings, err := CheckServer(t.Context(), clients.Read)
	require.NoError(t, err)
	require.Len(t, warnings, 1) // of appendonly
	require.NoError(t, NewClock(clients.Read, time.Now).Measure(t.Context()))
	dashboard := clients.OpenDashboard()
	t.Cleanup(func() { _ = dashboard.Close() })
	require.NoError(t, dashboard.Ping(t.Context()).Err())

	replica := world.Replica()
	other := redis.NewClient(&redis.Options{Addr: replica.Addr(), DB: 2})
	t.Cleanup(func() { _ = other.Close() })
	require.Eventually(t, func() bool { return other.DBSize(t.Context()).Val() == int64(len(clients.each())) }, 2*time.Minute, 10*time.Millisecond)
	world.Master().Stop()
	for name, client := range clients.each() {
		testenv.EventuallyNoError(t, 20*time.Second, func() error { return client.Set(t.Context(), name, 2, 0).Err() })
		require.Equal(t, "2", other.Get(t.Context(), name).Val(), name)
	}
}

func TestSentinelMistakesAreExplained(t *testing.T) {
	t.Parallel()
	world := testenv.StartSentinel(t)
	plain := testenv.StartRedis(t)
	for url, says := range map[string]string{
		strings.Replace(world.URL(), "=pushes", "=others", 1):      "the sentinels know no master of the name that redis.url gives",
		"redis-sentinel://" + plain.Addr() + "/0?master=pushes":    "it is not a sentinel",
		"redis-cluster://" + plain.Addr():                          "it is not a cluster",
		"redis-sentinel://" + testenv.FreeAddress(t) + "?master=m": "connection refused",
	} {
		_, err := CheckServer(t.Context(), open(t, url).Read)
		require.Error(t, err, url)
		require.ErrorContains(t, err, says, url)
	}
	_, err := CheckServer(t.Context(), open(t, "redis://"+world.Replica().Addr()).Read)
	require.ErrorContains(t, err, "this server is a replica")
}

func TestOpenReachesEveryNodeOfACluster(t *testing.T) {
	t.Parallel()
	world := testenv.StartCluster(t)
	clients := open(t, world.URL())
	for name, client := range clients.each() {
		for number := range 50 { // in all nodes
			key := fmt.Sprintf("%s%d", name, number)
			require.NoError(t, client.Set(t.Context(), key, number, 0).Err(), name)
			got, err := clients.Read.Get(t.Context(), key).Int()
			require.NoError(t, err)
			require.Equal(t, number, got)
		}
		require.NoError(t, client.Ping(t.Context()).Err(), name)
	}
	for _, node := range world.Nodes() {
		require.Greater(t, node.Client(t).DBSize(t.Context()).Val(), int64(20))
	}
	warnings, err := CheckServer(t.Context(), clients.Read)
	require.NoError(t, err)
	require.Len(t, warnings, 3)
	clock := NewClock(clients.Read, time.Now)
	clock.Key = "pushq:{swrve}:pace"
	require.NoError(t, clock.Measure(t.Context()))
	require.LessOrEqual(t, clock.Offset().Abs(), clock.RoundTrip()/2+10*time.Millisecond)

	// One unfit master is enough.
	require.NoError(t, world.Nodes()[2].Client(t).ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru").Err())
	_, err = CheckServer(t.Context(), clients.Read)
	require.ErrorIs(t, err, ErrUnfit)
	require.ErrorContains(t, err, world.Nodes()[2].Addr())
}

// A slot that has moved is found, by those who never repeat a command after an
// error.
func TestOpenFollowsASlot(t *testing.T) {
	t.Parallel()
	const key = "pushq:{swrve}:moved"
	world := testenv.StartCluster(t)
	clients := open(t, world.URL())
	dashboard := clients.OpenDashboard()
	t.Cleanup(func() { _ = dashboard.Close() })
	all := clients.each()
	all["dashboard"] = dashboard
	for number := range world.Nodes() {
		for name, client := range all {
			require.NoError(t, client.Exists(t.Context(), key).Err(), name)
		}

		target := world.Nodes()[number].Client(t)
		id, err := target.Do(t.Context(), "CLUSTER", "MYID").Text()
		require.NoError(t, err)
		slot := target.ClusterKeySlot(t.Context(), key).Val()
		require.NoError(t, target.Do(t.Context(), "CLUSTER", "SETSLOT", slot, "NODE", id).Err())
		require.NoError(t, target.Do(t.Context(), "CLUSTER", "BUMPEPOCH").Err())
		for _, node := range world.Nodes() {
			require.NoError(t, node.Client(t).Do(t.Context(), "CLUSTER", "SETSLOT", slot, "NODE", id).Err())
		}
		for name, client := range all {
			if name == "intake" || name == "dashboard" {
				testenv.EventuallyNoError(t, 5*time.Second, func() error { return client.Exists(t.Context(), key).Err() })
			} else {
				require.NoError(t, client.Exists(t.Context(), key).Err(), name)
			}
		}
	}
}

func TestOpenFollowsAMasterOfACluster(t *testing.T) {
	t.Parallel()
	const key = "pushq:{swrve}:pace"
	world := testenv.StartCluster(t)
	clients := open(t, world.URL())
	owner, err := world.Client(t).MasterForKey(t.Context(), key)
	require.NoError(t, err)
	var master *testenv.Redis
	for _, node := range world.Nodes() {
		if node.Addr() == owner.Options().Addr {
			master = node
		}
	}
	replica := world.StartReplica(t, master)
	for name, client := range clients.each() {
		require.NoError(t, client.Set(t.Context(), key, 1, 0).Err(), name)
	}
	master.Stop()
	for name, client := range clients.each() {
		testenv.EventuallyNoError(t, 20*time.Second, func() error { return client.Set(t.Context(), key, name, 0).Err() })
	}
	require.Contains(t, replica.Client(t).Info(t.Context(), "replication").Val(), "role:master")
}

// The clock is that of the key's master: it alone is asked.
func TestClockOfAClusterAsksOneMaster(t *testing.T) {
	t.Parallel()
	world := testenv.StartCluster(t)
	clients := open(t, world.URL())
	clock := NewClock(clients.Read, time.Now)
	clock.Key = "pushq:{swrve}:pace"
	for range 4 {
		require.NoError(t, clock.Measure(t.Context()))
	}
	owner, err := world.Client(t).MasterForKey(t.Context(), clock.Key)
	require.NoError(t, err)
	for _, node := range world.Nodes() {
		asked := strings.Contains(node.Client(t).Info(t.Context(), "commandstats").Val(), "cmdstat_time:calls=20,")
		require.Equal(t, node.Addr() == owner.Options().Addr, asked, node.Addr())
	}
}

func TestTLSInACluster(t *testing.T) {
	t.Parallel()
	authority := testenv.NewAuthority(t)
	cert, key := authority.Issue(time.Now().Add(time.Hour), "127.0.0.1")
	files := certificates.Files{CA: authority.File(), Cert: cert, Key: key}
	node := testenv.StartRedis(t, "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", authority.File(),
		"--cluster-enabled", "yes", "--tls-cluster", "yes", "--cluster-announce-ip", "127.0.0.1")
	client := node.Client(t)
	require.NoError(t, client.Do(t.Context(), "CLUSTER", "ADDSLOTSRANGE", 0, 16383).Err())
	require.Eventually(t, func() bool {
		return strings.Contains(client.ClusterInfo(t.Context()).Val(), "cluster_state:ok")
	}, 2*time.Minute, 10*time.Millisecond)
	for url, well := range map[string]bool{"?tls=true": true, "": false} {
		clients, err := Server{URL: "redis-cluster://127.0.0.1:" + node.TLSPort() + url, TLS: files, Log: slog.New(slog.DiscardHandler)}.Open(0)
		require.NoError(t, err)
		t.Cleanup(func() { _ = clients.Close() })
		err = clients.Intake.Set(t.Context(), "key", 1, 0).Err()
		require.Equal(t, well, err == nil, "%s: %v", url, err)
	}
}
